//! Models in pieces, joined: the file that they were cut from, and nothing else.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use nook_kernels::Format;
use nook_model::gguf::{Header, Joined, PieceOf};
use nook_model::synthetic::{Family, Recipe, cut};
use nook_model::{Fault, ModelFile};

/// A model and the folder in which it lies, whole and in pieces.
struct Cut {
    _folder: tempfile::TempDir,
    whole: Vec<u8>,
    whole_at: PathBuf,
    pieces: Vec<PathBuf>,
}

impl Cut {
    fn new(pieces: u16, head_alone: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let whole_at = folder.path().join("whole.gguf");
        Recipe::of(Family::Qwen3, Format::Q8_0, 7).write(&whole_at).unwrap();
        let whole = fs::read(&whole_at).unwrap();
        let at = |number: usize| folder.path().join(format!("m-{number:05}-of-{pieces:05}.gguf"));
        let cut = cut(&whole, pieces, head_alone);
        let write = |(number, bytes): (usize, Vec<u8>)| {
            fs::write(at(number), bytes).unwrap();
            at(number)
        };
        let pieces = (1..).zip(cut).map(write).collect();
        Self { _folder: folder, whole, whole_at, pieces }
    }

    fn joined(&self) -> Vec<u8> {
        let plan = Joined::plan(&self.pieces).unwrap();
        let mut joined = plan.header.clone();
        for (data, path) in plan.data.iter().zip(&self.pieces) {
            let mut file = File::open(path).unwrap();
            file.seek(SeekFrom::Start(data.from.start)).unwrap();
            let long = data.from.end - data.from.start;
            assert_eq!(file.take(long).read_to_end(&mut joined).unwrap() as u64, long);
            joined.resize(joined.len() + data.zeros as usize, 0);
        }
        assert_eq!(joined.len() as u64, plan.bytes());
        joined
    }

    fn fault(&self) -> Fault {
        Joined::plan(&self.pieces).unwrap_err().fault
    }

    /// Writes other bytes into a piece, behind the first `before` in it.
    fn write_behind(&self, piece: usize, before: &[u8], other: &[u8]) {
        let mut bytes = fs::read(&self.pieces[piece]).unwrap();
        let found = bytes.windows(before.len()).position(|it| it == before).unwrap();
        let at = found + before.len();
        bytes[at..at + other.len()].copy_from_slice(other);
        fs::write(&self.pieces[piece], bytes).unwrap();
    }
}

#[test]
fn pieces_become_the_file_that_they_were_cut_from() {
    for (pieces, head_alone) in [(2, false), (3, false), (3, true), (7, false)] {
        let cut = Cut::new(pieces, head_alone);
        assert!(cut.joined() == cut.whole, "{pieces} pieces, head alone: {head_alone}");
    }
}

#[test]
fn a_piece_alone_is_told_apart_from_a_damaged_file() {
    let cut = Cut::new(3, false);
    for (path, number) in cut.pieces.iter().zip(1..) {
        let fault = ModelFile::open(path).unwrap_err().fault;
        assert_eq!(fault, Fault::Piece { number, count: 3 });
        let bytes = fs::read(path).unwrap();
        let header = Header::read(bytes.as_slice(), bytes.len() as u64).unwrap();
        assert_eq!(header.piece().unwrap(), Some(PieceOf { number, count: 3 }));
    }
    let whole = ModelFile::open(&cut.whole_at).unwrap();
    assert!(whole.name().len() > 1);
}

#[test]
fn pieces_of_another_model_are_missing_or_in_another_order_are_named() {
    let mut cut = Cut::new(3, false);
    cut.pieces.swap(1, 2);
    let fault = cut.fault();
    assert!(matches!(&fault, Fault::NotThePiece { number: 2, .. }), "{fault}");
    assert!(fault.to_string().contains("it is piece 3 of 3"), "{fault}");

    let mut cut = Cut::new(3, false);
    cut.pieces.pop();
    assert!(cut.fault().to_string().contains("it is piece 1 of 3"), "{}", cut.fault());

    let mut cut = Cut::new(3, false);
    cut.pieces[2] = cut.whole_at.clone();
    assert!(cut.fault().to_string().contains("it is a whole file"), "{}", cut.fault());

    // All three are numbered well, and one is of a model with other tensors.
    let cut = Cut::new(3, false);
    let all = ModelFile::open(&cut.whole_at).unwrap();
    let count = i32::try_from(all.header().tensors().len()).unwrap();
    cut.write_behind(0, b"split.tensors.count\x05\0\0\0", &(count + 1).to_le_bytes());
    assert!(cut.fault().to_string().contains("all pieces together have"), "{}", cut.fault());
}

#[test]
fn a_tensor_in_two_pieces_is_refused() {
    let mut cut = Cut::new(2, false);
    let second = fs::read(&cut.pieces[1]).unwrap();
    let header = Header::read(second.as_slice(), second.len() as u64).unwrap();
    let first = fs::read(&cut.pieces[0]).unwrap();
    let named = Header::read(first.as_slice(), first.len() as u64).unwrap();
    // A name of the first piece, in the place of one that is as long.
    let pair = header.tensors().iter().find_map(|own| {
        let same = |other: &&nook_model::gguf::TensorInfo| other.name.len() == own.name.len();
        Some((own.name.clone(), named.tensors().iter().find(same)?.name.clone()))
    });
    let (own, other) = pair.unwrap();
    let bytes = String::from_utf8_lossy(&second).contains(&own);
    assert!(bytes);
    let at = second.windows(own.len()).position(|it| it == own.as_bytes()).unwrap();
    let mut twice = second;
    twice[at..at + other.len()].copy_from_slice(other.as_bytes());
    let path = cut.pieces[1].with_extension("twice.gguf");
    fs::write(&path, twice).unwrap();
    cut.pieces[1] = path;
    assert_eq!(cut.fault(), Fault::DuplicateTensor { tensor: other });
}

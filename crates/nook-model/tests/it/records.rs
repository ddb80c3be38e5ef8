//! The record of present tensors beside a partial file: kept, and refused when it is not exactly as
//! it was written or not of its file.

use std::path::Path;

use crate::partial::{Taker, inner, tiny};
use nook_base::ModelPart;
use nook_kernels::Format;
use nook_model::synthetic::Recipe;
use nook_model::{Fault, ModelFile, Presence, PresenceError};

#[test]
fn a_record_comes_back_as_it_was_stored() {
    let (folder, source) = tiny(false);
    let manifest = source.manifest().unwrap();
    let path = folder.path().join("part.gguf");
    assert_eq!(Presence::load(&path), Ok(None));
    let mut presence = Presence::new(&manifest);
    let tensors = presence.tensors();
    assert_eq!((tensors, presence.count()), (manifest.tensors(), 0));
    for number in (0..tensors).rev() {
        assert!(!presence.has(number) && !presence.is_complete());
        presence.mark(number).unwrap();
        presence.mark(number).unwrap();
        assert!(presence.has(number));
        assert_eq!(presence.count(), tensors - number);
        presence.store(&path).unwrap();
        assert_eq!(Presence::load(&path), Ok(Some(presence.clone())));
    }
    assert!(presence.is_complete() && !presence.has(tensors) && !presence.has(u32::MAX));
    let weights: u64 = source.header().tensors().iter().map(|tensor| tensor.bytes).sum();
    assert_eq!(presence.bytes(source.header()), weights);
    let none = PresenceError::NoSuchTensor { number: tensors, tensors };
    assert_eq!(presence.mark(tensors), Err(none));
    // The writes left nothing behind.
    let mut names: Vec<_> =
        folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["part.gguf.present", "whole.gguf"]);
}

#[test]
fn a_record_that_cannot_be_stored_leaves_the_earlier_one() {
    let (folder, source) = tiny(false);
    let presence = Presence::new(&source.manifest().unwrap());
    let nowhere = folder.path().join("none").join("part.gguf");
    let refused = presence.store(&nowhere).unwrap_err();
    assert!(matches!(refused, PresenceError::File { .. }), "{refused}");
    // What stands at its path is no file: the rename fails, and the temporary file goes.
    let path = folder.path().join("part.gguf");
    std::fs::create_dir_all(Presence::path_of(&path).join("full")).unwrap();
    assert!(presence.store(&path).is_err());
    assert!(Presence::load(&path).is_err());
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}

#[test]
fn a_damaged_record_is_an_error_and_no_empty_one() {
    let (folder, source) = tiny(false);
    let path = folder.path().join("part.gguf");
    let taker = Taker::with(&source, path.clone(), &inner(0, 2));
    let open = taker.open();
    let record = Presence::path_of(&path);
    let bytes = std::fs::read(&record).unwrap();
    let refused = |damaged: &[u8]| {
        std::fs::write(&record, damaged).unwrap();
        let error = Presence::load(&path).unwrap_err();
        assert_eq!(ModelFile::open(&path).unwrap_err().fault, Fault::Presence { error });
    };
    for at in 0..bytes.len() {
        refused(&bytes[..at]);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        refused(&damaged);
    }
    refused(&[&bytes[..], &[0]].concat());
    refused(&vec![0; 1 << 20]);
    let mut huge = bytes.clone();
    huge[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(&huge);

    // A file that is open keeps what it knew, and adds nothing.
    assert!(open.has_part(&inner(0, 2)) && !open.has_part(&inner(0, 3)));
    let absent = *open.ranges_of(&inner(2, 3)).last().unwrap();
    let fault = open.bytes_at(absent.start, 1).unwrap_err().fault;
    assert!(matches!(fault, Fault::Presence { .. }), "{fault}");
    let present = open.ranges_of(&inner(0, 2))[0];
    open.bytes_at(present.start, 1).unwrap();
    std::fs::write(&record, &bytes).unwrap();
    ModelFile::open(&path).unwrap();
}

#[test]
fn the_record_of_another_file_is_refused() {
    let (folder, source) = tiny(false);
    let path = folder.path().join("part.gguf");
    let taker = Taker::with(&source, path.clone(), &ModelPart::whole(4));
    // The same tensors in a longer file.
    let longer = folder.path().join("longer.gguf");
    let bytes = [std::fs::read(source.path()).unwrap(), vec![0; 32]].concat();
    std::fs::write(&longer, &bytes).unwrap();
    taker.presence.store(&longer).unwrap();
    let length = source.file_bytes();
    let error = PresenceError::FileBytes { record: length, file: length + 32 };
    assert_eq!(open_fault(&longer), Fault::Presence { error });
    // Another model that is padded to the same length.
    let other = folder.path().join("other.gguf");
    Recipe { layers: 3, ..Recipe::tiny(Format::Q8_0, 3) }.write(&other).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&other).unwrap();
    let tensors = ModelFile::open(&other).unwrap().header().tensors().len();
    file.set_len(length).unwrap();
    taker.presence.store(&other).unwrap();
    let error = PresenceError::Tensors { record: taker.presence.tensors(), file: tensors };
    assert_eq!(open_fault(&other), Fault::Presence { error });
}

#[test]
fn a_file_of_which_only_the_header_is_there_tells_what_it_needs() {
    let (folder, source) = tiny(true);
    let taker = Taker::begin(&source, folder.path().join("part.gguf"));
    let partial = taker.open();
    assert!(partial.is_partial() && partial.layers_present().is_empty());
    for part in [ModelPart::whole(4), inner(1, 3), inner(2, 2)] {
        let ranges = partial.ranges_of(&part);
        assert_eq!(ranges, source.ranges_of(&part));
        assert!(ranges.is_sorted_by(|a, b| a.number < b.number && a.start + a.bytes <= b.start));
        let bytes: u64 = ranges.iter().map(|range| range.bytes).sum();
        assert_eq!(bytes, source.weight_bytes(&part));
        assert_eq!(partial.has_part(&part), ranges.is_empty());
    }
    // Frequencies are for every holder of layers; other layers are for none.
    let names: Vec<&str> = partial
        .ranges_of(&inner(2, 3))
        .iter()
        .map(|range| partial.header().tensors()[range.number as usize].name.as_str())
        .collect();
    assert!(names.contains(&"rope_freqs.weight"));
    assert!(names.iter().all(|name| name.starts_with("blk.2.") || *name == "rope_freqs.weight"));
}

#[cfg(unix)]
#[test]
fn a_name_too_long_for_a_record_is_a_whole_file() {
    let (folder, source) = tiny(false);
    let path = folder.path().join("x".repeat(255));
    std::fs::copy(source.path(), &path).unwrap();
    assert!(!ModelFile::open(&path).unwrap().is_partial());
}

fn open_fault(path: &Path) -> Fault {
    ModelFile::open(path).map(|_| ()).expect_err("it has the record of another file").fault
}

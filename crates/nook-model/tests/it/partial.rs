//! Files that hold only some tensors: what loads from them, bit for bit as from the whole file, and
//! that nothing else is read.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::executors::{CHUNKS, parts};
use crate::families::{PROMPT, bits, check_families, prompt, run, stage, window};
use crate::fixtures::{session, tiny_models, values};
use nook_base::{LayerRange, LogitRows, ModelPart};
use nook_kernels::Format;
use nook_model::synthetic::{Family, Recipe};
use nook_model::{
    Fault, Input, LoadOptions, LoadedModel, Manifest, ModelFile, Precision, Presence,
};

const OPTIONS: LoadOptions = LoadOptions { threads: 2, precision: Precision::Auto };

/// A helper that takes a model from a device that has all of it, tensor by tensor.
pub(crate) struct Taker {
    pub(crate) path: PathBuf,
    pub(crate) presence: Presence,
    manifest: Manifest,
    source: ModelFile,
}

impl Taker {
    /// The record, then a file of the whole length with nothing but the header.
    pub(crate) fn begin(source: &ModelFile, path: PathBuf) -> Self {
        let manifest = source.manifest().unwrap();
        let manifest = Manifest::from_bytes_of(&manifest.to_bytes(), manifest.digest()).unwrap();
        let header = source.bytes_at(0, manifest.header_bytes() as usize).unwrap();
        manifest.read_header(&header).unwrap();
        let presence = Presence::new(&manifest);
        presence.store(&path).unwrap();
        let mut file = File::create(&path).unwrap();
        file.write_all(&header).unwrap();
        file.set_len(manifest.file_bytes()).unwrap();
        Self { path, presence, manifest, source: source.clone() }
    }

    /// A file with the tensors of `part`.
    pub(crate) fn with(source: &ModelFile, path: PathBuf, part: &ModelPart) -> Self {
        let mut taker = Self::begin(source, path);
        taker.take(part);
        taker
    }

    /// Takes what is absent of `part`, through a file handle of its own.
    pub(crate) fn take(&mut self, part: &ModelPart) {
        let mut file = OpenOptions::new().write(true).open(&self.path).unwrap();
        for range in self.source.ranges_of(part) {
            if self.presence.has(range.number) {
                continue;
            }
            let bytes = self.source.bytes_at(range.start, range.bytes as usize).unwrap();
            let mut check = self.manifest.tensor_check(range.number).unwrap();
            bytes.chunks(777).for_each(|piece| check.update(piece));
            check.finish().unwrap();
            file.seek(SeekFrom::Start(range.start)).unwrap();
            file.write_all(&bytes).unwrap();
            self.presence.mark(range.number).unwrap();
        }
        self.presence.store(&self.path).unwrap();
    }

    pub(crate) fn open(&self) -> ModelFile {
        ModelFile::open(&self.path).unwrap_or_else(|error| panic!("{error}"))
    }
}

#[test]
fn parts_of_every_family_give_the_bits_of_the_whole_from_files_that_hold_nothing_else() {
    check_families(|_, path, file| {
        let prompt = prompt(6);
        let whole = stage(file, ModelPart::whole(file.shape().layers), window(file));
        let whole = run(&mut [whole], &prompt, &[PROMPT]);
        let middle = (1..=file.shape().layers.div_ceil(2)).rev().find(|cut| file.may_cut(*cut));
        let middle = middle.unwrap();
        let folder = tempfile::tempdir().unwrap();
        for cuts in [&[1, middle][..], &[middle]] {
            let mut stages = Vec::new();
            for (index, part) in parts(file, cuts).into_iter().enumerate() {
                let name = format!("{}-{index}.gguf", cuts.len());
                let partial = Taker::with(file, folder.path().join(name), &part).open();
                check_part_alone(file, &partial, &part)?;
                stages.push(stage(&partial, part, window(file)));
            }
            if bits(&run(&mut stages, &prompt, &CHUNKS)) != bits(&whole) {
                return Err(format!("{} differs with the cuts {cuts:?}", path.display()));
            }
        }
        Ok("same bits".to_owned())
    });
}

/// That `partial` has `part` and says so, and refuses each part that takes more.
fn check_part_alone(file: &ModelFile, partial: &ModelFile, part: &ModelPart) -> Result<(), String> {
    assert_eq!(partial.ranges_of(part), file.ranges_of(part));
    if !partial.is_partial() || !partial.has_part(part) {
        return Err(format!("does not know that it has {part:?} and no more"));
    }
    if partial.layers_present() != [part.layers] {
        return Err(format!("has {part:?} but says {:?}", partial.layers_present()));
    }
    let all = file.shape().layers;
    let one = |layer: u32| ModelPart::inner(LayerRange::with_len(layer, 1));
    let mut others: Vec<ModelPart> = (0..all).map(one).collect();
    others.extend([end(true, false), end(false, true), ModelPart::whole(all)]);
    for other in others {
        let needed = file.ranges_of(&other);
        let has_all = needed.iter().all(|range| file.ranges_of(part).contains(range));
        if partial.has_part(&other) != has_all {
            return Err(format!("has {part:?} and says wrongly whether it has {other:?}"));
        }
        let mut model = LoadedModel::new(partial.clone(), OPTIONS).unwrap();
        match model.hold(&other).map_err(|error| error.fault) {
            Ok(()) if has_all => {}
            Err(Fault::Absent { .. }) if !has_all && model.weight_bytes() == 0 => {}
            got => return Err(format!("has {part:?} and when asked for {other:?}: {got:?}")),
        }
    }
    Ok(())
}

#[test]
fn published_models_compute_the_same_from_files_of_parts() {
    let folder = tempfile::tempdir().unwrap();
    for known in tiny_models("published_models_compute_the_same_from_files_of_parts") {
        let file = ModelFile::open(&known.file).unwrap();
        let prompt: Vec<u32> = (1..40).map(|id| id % file.shape().vocabulary).collect();
        let whole = stage(&file, ModelPart::whole(file.shape().layers), window(&file));
        let whole = run(&mut [whole], &prompt, &CHUNKS);
        let partial = |(index, part): (usize, ModelPart)| {
            let path = folder.path().join(format!("{}-{index}.gguf", known.name));
            stage(&Taker::with(&file, path, &part).open(), part, window(&file))
        };
        let middle = file.shape().layers.div_ceil(2);
        let mut stages: Vec<_> =
            parts(&file, &[middle]).into_iter().enumerate().map(partial).collect();
        assert_eq!(bits(&run(&mut stages, &prompt, &CHUNKS)), bits(&whole), "{}", known.name);
    }
}

#[test]
fn what_is_absent_is_named() {
    let (folder, source) = tiny(false);
    let mut taker = Taker::begin(&source, folder.path().join("part.gguf"));
    let partial = taker.open();
    let mut model = LoadedModel::new(partial.clone(), OPTIONS).unwrap();
    let whole = ModelPart::whole(4);
    let mut refused = || match model.hold(&whole).unwrap_err().fault {
        Fault::Absent { what } => what,
        other => panic!("{other}"),
    };
    assert_eq!(refused(), "layers 0-3, the embedding, the head");
    taker.take(&inner(1, 3));
    assert_eq!(refused(), "layers 0-0, layers 3-3, the embedding, the head");
    taker.take(&end(true, false));
    assert_eq!(refused(), "layers 0-0, layers 3-3, the head");
    taker.take(&end(false, true));
    assert_eq!(refused(), "layers 0-0, layers 3-3");
    assert_eq!(partial.layers_present(), [LayerRange::with_len(1, 2)]);
    let beyond = inner(3, 9);
    taker.take(&whole);
    assert!(partial.has_part(&whole) && !partial.has_part(&beyond));
    model.hold(&whole).unwrap();
}

#[test]
fn tensors_that_arrive_while_the_file_is_open_load_and_compute() {
    let (folder, source) = tiny(true);
    let mut taker = Taker::with(&source, folder.path().join("part.gguf"), &inner(0, 2));
    let mut model = LoadedModel::new(taker.open(), OPTIONS).unwrap();
    model.hold(&inner(0, 2)).unwrap();
    assert!(model.hold(&ModelPart::whole(4)).is_err());
    assert_eq!(model.held(), [LayerRange::with_len(0, 2)]);

    taker.take(&ModelPart::whole(4));
    model.hold(&ModelPart::whole(4)).unwrap();
    let ids = prompt(7);
    let logits = |model: &LoadedModel| {
        values(session(model).step(model, Input::Tokens(&ids), LogitRows::All).unwrap())
    };
    let (whole, _) = stage(&source, ModelPart::whole(4), 128);
    assert_eq!(bits(&logits(&model)), bits(&logits(&whole)));
    // All tensors are there, so the file is as good as any other copy.
    let complete = model.file();
    assert!(!complete.is_partial() && complete.presence().unwrap().is_complete());
    assert_eq!(complete.manifest().unwrap(), source.manifest().unwrap());
}

#[test]
fn a_partial_file_has_no_digest_and_gives_no_bytes_of_holes() {
    let (folder, source) = tiny(false);
    let part = inner(1, 3);
    let taker = Taker::with(&source, folder.path().join("part.gguf"), &part);
    let partial = taker.open();
    let absent = |fault: Fault| assert!(matches!(fault, Fault::Absent { .. }), "{fault}");
    absent(partial.digest().unwrap_err().fault);
    absent(ModelFile::digest_at(&taker.path).unwrap_err().fault);
    absent(Manifest::at(&taker.path).unwrap_err().fault);
    assert_eq!(partial.presence().unwrap().digest(), source.digest().unwrap());

    let present = partial.ranges_of(&part);
    let bytes: u64 = present.iter().map(|range| range.bytes).sum();
    assert_eq!(partial.presence().unwrap().bytes(partial.header()), bytes);
    for range in partial.ranges_of(&ModelPart::whole(4)) {
        let whole = source.bytes_at(range.start, range.bytes as usize).unwrap();
        let last = range.start + range.bytes - 1;
        if present.contains(&range) {
            assert_eq!(partial.bytes_at(range.start, range.bytes as usize).unwrap(), whole);
            assert_eq!(partial.bytes_at(last, 1).unwrap(), whole[whole.len() - 1..]);
        } else {
            for (at, count) in [(range.start, 1), (last, 1), (range.start, whole.len())] {
                absent(partial.bytes_at(at, count).unwrap_err().fault);
            }
        }
    }
    // Also where a range begins or ends in what is present.
    absent(partial.bytes_at(0, partial.file_bytes() as usize).unwrap_err().fault);
    let header = partial.bytes_at(0, partial.header().data_start() as usize).unwrap();
    assert_eq!(header, source.bytes_at(0, header.len()).unwrap());
}

#[test]
fn a_loaded_part_is_not_disturbed_when_other_tensors_are_written() {
    let (folder, source) = tiny(false);
    let mut taker = Taker::with(&source, folder.path().join("part.gguf"), &inner(0, 2));
    let partial = taker.open();
    let mut model = LoadedModel::new(partial.clone(), OPTIONS).unwrap();
    model.hold(&inner(0, 1)).unwrap();
    let handle = OpenOptions::new().write(true).open(&taker.path).unwrap();
    let opened = handle.metadata().unwrap().modified().unwrap();
    handle.set_modified(opened + Duration::from_secs(5)).unwrap();
    model.hold(&inner(0, 2)).unwrap();
    taker.take(&inner(2, 3));
    handle.set_modified(opened + Duration::from_secs(9)).unwrap();
    model.hold(&inner(0, 3)).unwrap();
    let range = partial.ranges_of(&inner(0, 1))[0];
    partial.bytes_at(range.start, range.bytes as usize).unwrap();
    // The length tells that it is no longer the file that was opened.
    handle.set_len(partial.file_bytes() - 1).unwrap();
    assert_eq!(model.hold(&inner(0, 3)).unwrap_err().fault, Fault::Changed);
}

#[test]
fn another_file_and_record_at_the_path_add_nothing_to_the_open_one() {
    let (folder, source) = tiny(false);
    let path = folder.path().join("part.gguf");
    let taker = Taker::with(&source, path.clone(), &inner(0, 2));
    let mut model = LoadedModel::new(taker.open(), OPTIONS).unwrap();
    // The open file keeps its holes. The new record is of the new file, where they are filled.
    std::fs::remove_file(&path).unwrap();
    Taker::with(&source, path.clone(), &ModelPart::whole(4));
    assert_eq!(model.hold(&inner(2, 4)).unwrap_err().fault, Fault::Changed);
    let file = model.file();
    assert!(!file.has_part(&inner(2, 4)) && file.has_part(&inner(0, 2)));
    model.hold(&inner(0, 2)).unwrap();
    // Without any record too.
    std::fs::remove_file(Presence::path_of(&path)).unwrap();
    let absent = model.hold(&inner(2, 4)).unwrap_err().fault;
    assert!(matches!(absent, Fault::Absent { .. }), "{absent}");
}

#[test]
fn what_is_absent_loads_from_another_file_of_the_model_and_from_no_other_model() {
    let (folder, source) = tiny(true);
    let taker = Taker::with(&source, folder.path().join("part.gguf"), &inner(0, 2));
    let mut model = LoadedModel::new(taker.open(), OPTIONS).unwrap();
    model.hold(&inner(0, 2)).unwrap();
    let (_other_folder, other) = tiny(false);
    let refused = model.hold_from(&other, &ModelPart::whole(4)).unwrap_err().fault;
    assert_eq!(refused, Fault::OtherLayout);
    assert_eq!(model.held(), [LayerRange::with_len(0, 2)]);

    model.hold_from(&source, &ModelPart::whole(4)).unwrap();
    let ids = prompt(7);
    let logits = |model: &LoadedModel| {
        values(session(model).step(model, Input::Tokens(&ids), LogitRows::All).unwrap())
    };
    let (whole, _) = stage(&source, ModelPart::whole(4), 128);
    assert_eq!(bits(&logits(&model)), bits(&logits(&whole)));
}

/// The tensors for which other executors ask are refused where those of the CPU are.
#[test]
fn a_gpu_loads_nothing_that_is_absent() {
    let Some(gpu) = crate::gpu::gpu("a_gpu_loads_nothing_that_is_absent") else { return };
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Llama, Family::Gemma3] {
        let path = crate::executors::write(folder.path(), family, 2);
        let source = ModelFile::open(&path).unwrap();
        let mut taker = Taker::with(&source, folder.path().join("part.gguf"), &inner(0, 1));
        let mut model = LoadedModel::with_gpu(taker.open(), &gpu, OPTIONS).unwrap();
        model.hold(&inner(0, 1)).unwrap();
        let absent = model.hold(&inner(0, 2)).unwrap_err().fault;
        assert!(matches!(absent, Fault::Absent { .. }), "{absent}");
        taker.take(&inner(1, 2));
        model.hold(&inner(0, 2)).unwrap();
    }
}

/// A llama of four layers, with or without an output matrix of its own.
pub(crate) fn tiny(tied_output: bool) -> (tempfile::TempDir, ModelFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.gguf");
    let usual = Recipe::tiny(Format::Q8_0, 3);
    Recipe { tied_output, rope_factors: true, ..usual }.write(&path).unwrap();
    let file = ModelFile::open(&path).unwrap();
    (folder, file)
}

pub(crate) fn inner(start: u32, end: u32) -> ModelPart {
    ModelPart::inner(LayerRange::new(start, end).unwrap())
}

fn end(embedding: bool, head: bool) -> ModelPart {
    ModelPart { layers: LayerRange::with_len(0, 0), embedding, head }
}

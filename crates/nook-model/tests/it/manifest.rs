//! Manifests: their root, their bytes, and what they find wrong in bytes of others.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use std::cell::Cell;
use std::path::{Path, PathBuf};

use crate::fixtures::tiny_models;
use nook_base::ModelDigest;
use nook_kernels::Format;
use nook_model::manifest::TRAILING_BYTES_MAX;
use nook_model::synthetic::Recipe;
use nook_model::{Fault, Manifest, ManifestError, ModelFile};

/// Where the two lengths lie, which the root does not cover.
const LENGTHS: std::ops::Range<usize> = 16..32;

/// Where the number of tensors lies.
const COUNT: std::ops::Range<usize> = 12..16;

#[test]
fn the_root_of_a_manifest_is_the_digest_of_its_model() {
    for known in tiny_models("the_root_of_a_manifest_is_the_digest_of_its_model") {
        let file = ModelFile::open(&known.file).unwrap();
        let manifest = file.manifest().unwrap();
        assert_eq!(manifest, Manifest::at(&known.file).unwrap(), "{}", known.name);
        assert_eq!(manifest.digest(), file.digest().unwrap(), "{}", known.name);
        assert_eq!(manifest.digest(), digest_by_its_definition(&known.file), "{}", known.name);
        assert_eq!(manifest.tensors() as usize, file.header().tensors().len());
        assert_eq!(manifest.file_bytes(), file.file_bytes());
        assert_eq!(manifest.header_bytes(), file.header().data_start());
    }
}

#[test]
fn a_manifest_comes_back_from_its_bytes_and_from_no_others() {
    let (_folder, path) = tiny();
    let manifest = Manifest::at(&path).unwrap();
    let (digest, bytes) = (manifest.digest(), manifest.to_bytes());
    assert_eq!(Manifest::length_of(&bytes[..Manifest::PREFIX_BYTES]), Ok(bytes.len()));
    assert_eq!(Manifest::from_bytes_of(&bytes, digest), Ok(manifest.clone()));

    for length in 0..bytes.len() {
        let refused = Manifest::from_bytes(&bytes[..length]).unwrap_err();
        assert!(matches!(refused, ManifestError::Length { got, .. } if got == length), "{refused}");
    }
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    let expected = bytes.len();
    let refused = ManifestError::Length { got: expected + 1, expected };
    assert_eq!(Manifest::from_bytes(&longer), Err(refused));

    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let got = Manifest::from_bytes_of(&damaged, digest);
        match got {
            // Nothing but the lengths is left to the checks of the header.
            Ok(other) => assert!(LENGTHS.contains(&at) && other.digest() == digest, "byte {at}"),
            Err(ManifestError::NotManifest) => assert!(at < 8),
            Err(ManifestError::Version { .. }) => assert!((8..12).contains(&at)),
            Err(ManifestError::Length { .. }) => assert!(COUNT.contains(&at)),
            Err(ManifestError::TooMany { .. }) => assert!(COUNT.contains(&at)),
            Err(ManifestError::Sizes { .. }) => assert!(LENGTHS.contains(&at)),
            Err(ManifestError::Digest { wanted, .. }) => {
                assert!(wanted == digest && at >= LENGTHS.end);
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    let other = ModelDigest([7; 32]);
    let refused = ManifestError::Digest { got: digest, wanted: other };
    assert_eq!(Manifest::from_bytes_of(&bytes, other), Err(refused));
}

#[test]
fn a_claimed_number_of_tensors_above_the_limit_is_refused_from_the_prefix() {
    let (_folder, path) = tiny();
    let mut prefix = Manifest::at(&path).unwrap().to_bytes();
    prefix.truncate(Manifest::PREFIX_BYTES);
    prefix[COUNT].copy_from_slice(&65_536u32.to_le_bytes());
    assert_eq!(Manifest::length_of(&prefix), Ok(Manifest::BYTES_MAX));
    for count in [65_537, u32::MAX] {
        prefix[COUNT].copy_from_slice(&count.to_le_bytes());
        let refused = ManifestError::TooMany { got: count, limit: 65_536 };
        assert_eq!(Manifest::length_of(&prefix), Err(refused.clone()));
        assert_eq!(Manifest::from_bytes(&prefix), Err(refused));
    }
}

#[test]
fn noise_is_no_manifest_and_never_panics() {
    let (_folder, path) = tiny();
    let whole = Manifest::at(&path).unwrap();
    for round in 0..2000u64 {
        let mut bytes = whole.to_bytes();
        let noise = blake3::hash(&round.to_le_bytes());
        let noise = noise.as_bytes();
        // Some bytes anywhere, more of them in front, and often another length.
        for four in noise.as_chunks::<4>().0 {
            let at = usize::from(u16::from_le_bytes([four[0], four[1]])) % bytes.len();
            bytes[if four[2] < 128 { at % 40 } else { at }] = four[3];
        }
        bytes.truncate(usize::from(noise[0]) * usize::from(noise[1]));
        if let Ok(manifest) = Manifest::from_bytes(&bytes) {
            assert_eq!(manifest.to_bytes(), bytes);
            let _ = manifest.read_header(&bytes);
            let _ = format!("{manifest:?}");
        }
    }
}

#[test]
fn the_header_is_checked_and_bounds_the_length_of_the_file() {
    let (_folder, path) = tiny();
    let (bytes, manifest) = (std::fs::read(&path).unwrap(), Manifest::at(&path).unwrap());
    let header = &bytes[..manifest.header_bytes() as usize];
    manifest.check_header(header).unwrap();
    assert_eq!(manifest.read_header(header).unwrap().tensors().len(), manifest.tensors() as usize);
    for at in 0..header.len() {
        let mut damaged = header.to_vec();
        damaged[at] ^= 0x80;
        assert_eq!(manifest.check_header(&damaged), Err(ManifestError::Header));
    }
    assert_eq!(manifest.check_header(&header[1..]), Err(ManifestError::Header));
    assert_eq!(manifest.check_header(&bytes), Err(ManifestError::Header));

    let of_length = |file_bytes: u64| {
        let mut changed = manifest.to_bytes();
        changed[16..24].copy_from_slice(&file_bytes.to_le_bytes());
        Manifest::from_bytes_of(&changed, manifest.digest()).unwrap().read_header(header)
    };
    let length = bytes.len() as u64;
    of_length(length + 4096).unwrap();
    let cut = of_length(length - 4096).unwrap_err();
    assert!(matches!(cut, ManifestError::HeaderFault { .. }), "{cut}");
    for length in [length + TRAILING_BYTES_MAX + 1, u64::MAX] {
        let long = of_length(length).unwrap_err();
        assert!(matches!(long, ManifestError::Trailing { .. }), "{long}");
    }
}

#[test]
fn a_wrong_byte_is_found_and_blamed_on_its_tensor_alone() {
    let (_folder, path) = tiny();
    let (mut bytes, manifest) = (std::fs::read(&path).unwrap(), Manifest::at(&path).unwrap());
    let file = ModelFile::open(&path).unwrap();
    let tensors = file.header().tensors();
    let verdicts = |bytes: &[u8]| -> Vec<u32> {
        let mut wrong = Vec::new();
        for (number, tensor) in (0u32..).zip(tensors) {
            let mut check = manifest.tensor_check(number).unwrap();
            let range = tensor.start as usize..(tensor.start + tensor.bytes) as usize;
            bytes[range].chunks(1000).for_each(|piece| check.update(piece));
            match check.finish() {
                Ok(()) => {}
                Err(ManifestError::Tensor { number }) => wrong.push(number),
                Err(other) => panic!("{other}"),
            }
        }
        wrong
    };
    assert!(verdicts(&bytes).is_empty());
    for (number, tensor) in (0u32..).zip(tensors) {
        for at in [tensor.start, tensor.start + tensor.bytes / 2, tensor.start + tensor.bytes - 1] {
            bytes[at as usize] ^= 1;
            assert_eq!(verdicts(&bytes), [number]);
            bytes[at as usize] ^= 1;
        }
    }
    // Too few bytes, too many, and none at all.
    let first = &bytes[tensors[0].start as usize..][..tensors[0].bytes as usize];
    let twice = [first, &[0]].concat();
    for wrong in [&first[1..], &twice, &[]] {
        let mut check = manifest.tensor_check(0).unwrap();
        check.update(wrong);
        assert_eq!(check.finish(), Err(ManifestError::Tensor { number: 0 }));
    }
    let count = manifest.tensors();
    let none = ManifestError::NoSuchTensor { number: count, tensors: count };
    assert_eq!(manifest.tensor_check(count).unwrap_err(), none);
}

#[test]
fn a_pass_over_a_file_stops_when_it_is_told_to() {
    let (_folder, path) = tiny();
    let file = ModelFile::open(&path).unwrap();
    // The header and every tensor are at least a piece each.
    let asked = Cell::new(0);
    let stop_at = |limit: usize| {
        asked.set(0);
        file.manifest_unless(&|| {
            asked.set(asked.get() + 1);
            asked.get() > limit
        })
    };
    assert_eq!(stop_at(3).unwrap_err().fault, Fault::Stopped);
    assert_eq!(asked.get(), 4);
    assert_eq!(stop_at(usize::MAX).unwrap(), file.manifest().unwrap());
    assert!(asked.get() > file.header().tensors().len());
    assert_eq!(Manifest::at_unless(&path, &|| true).unwrap_err().fault, Fault::Stopped);
}

/// A small quantised model.
fn tiny() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    Recipe::tiny(Format::Q8_0, 3).write(&path).unwrap();
    (folder, path)
}

/// The digest from the words of its definition, which must never change: devices find each other's
/// models by it.
fn digest_by_its_definition(path: &Path) -> ModelDigest {
    let bytes = std::fs::read(path).unwrap();
    let file = ModelFile::open(path).unwrap();
    let mut leaves = vec![*blake3::hash(&bytes[..file.header().data_start() as usize]).as_bytes()];
    for tensor in file.header().tensors() {
        let end = (tensor.start + tensor.bytes) as usize;
        leaves.push(*blake3::hash(&bytes[tensor.start as usize..end]).as_bytes());
    }
    let context = "Inglenook model digest, version 1";
    ModelDigest(blake3::derive_key(context, leaves.as_flattened()))
}

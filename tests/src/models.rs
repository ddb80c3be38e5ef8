//! The model files: random weights in the shapes of real models, written once and kept.
//!
//! Speed does not depend on what the weights say, so nothing is downloaded. A file's name carries a
//! hash of its recipe and header, so a changed recipe makes a new file and old ones are never
//! mistaken for it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nook_kernels::Format;
use nook_model::synthetic::{Mix, Recipe, header_bytes};
use sysinfo::Disks;

use crate::report;

/// Version of GGUF that is written; part of the hash.
const GGUF_VERSION: u32 = 3;

/// What stays free on the disk after a large file was written; after a small one, as much as it
/// takes.
const DISK_RESERVE_MAX: u64 = 2 << 30;

/// A shape with formats.
#[derive(Debug)]
pub struct Model {
    /// What it is called on the command line and in the file's name.
    pub name: &'static str,
    /// What it is called in tables.
    pub title: &'static str,
    /// How it is written; `None` while the writer of models does not know the shape.
    pub recipe: fn() -> Option<Recipe>,
}

/// All that are measured; the first is the one of a quick run, and of the rows with one file only.
pub const ALL: &[Model] = &[
    Model {
        name: "llama-1b-q4_k_m",
        title: "Llama-3.2-1B shape Q4_K_M",
        recipe: || Some(Recipe::llama_1b(Mix::Q4KM, 1)),
    },
    Model {
        name: "llama-1b-q8_0",
        title: "Llama-3.2-1B shape Q8_0",
        recipe: || Some(Recipe::llama_1b(Mix::All(Format::Q8_0), 1)),
    },
    Model {
        name: "llama-1b-q4_0",
        title: "Llama-3.2-1B shape Q4_0",
        recipe: || Some(Recipe::llama_1b(Mix::Q4_0, 1)),
    },
    Model {
        name: "llama-1b-q6_k",
        title: "Llama-3.2-1B shape Q6_K",
        recipe: || Some(Recipe::llama_1b(Mix::All(Format::Q6K), 1)),
    },
    Model {
        name: "llama-1b-mxfp4",
        title: "Llama-3.2-1B shape MXFP4",
        recipe: || Some(Recipe::llama_1b(Mix::All(Format::Mxfp4), 1)),
    },
    Model {
        name: "llama-1b-iq4_xs",
        title: "Llama-3.2-1B shape IQ4_XS",
        recipe: || Some(Recipe::llama_1b(Mix::All(Format::Iq4Xs), 1)),
    },
    Model {
        name: "llama-1b-iq2_xxs",
        title: "Llama-3.2-1B shape IQ2_XXS",
        recipe: || Some(Recipe::llama_1b(Mix::All(Format::Iq2Xxs), 1)),
    },
    Model {
        name: "qwen2-1.5b-q4_k_m",
        title: "Qwen2.5-1.5B shape Q4_K_M",
        recipe: || Some(Recipe::qwen_1_5b(Mix::Q4KM, 1)),
    },
];

/// What shows that the bench works.
pub const TINY: Model =
    Model { name: "tiny", title: "tiny", recipe: || Some(Recipe::tiny(Format::Q8_0, 1)) };

/// What many laptops hold beside their other programs, and slowly.
pub const LLAMA_3B: Model = Model {
    name: "llama-3b-q4_k_m",
    title: "Llama-3.2-3B shape Q4_K_M",
    recipe: || Some(Recipe::llama_3b(Mix::Q4KM, 1)),
};

/// What households of test programs divide: twelve layers that take about a millisecond each; 50 MB.
#[must_use]
pub fn household() -> Recipe {
    Recipe {
        layers: 12,
        hidden: 640,
        heads: 10,
        kv_heads: 5,
        head_dim: 64,
        feed_forward: 1792,
        context_length: 2048,
        ..Recipe::tiny(Format::Q8_0, 18)
    }
}

/// The model of a name, for the command line.
pub fn by_name(name: &str) -> Result<&'static Model, String> {
    let known = || ALL.iter().map(|model| model.name).collect::<Vec<_>>().join(", ");
    ALL.iter().find(|model| model.name == name).ok_or_else(|| format!("known are {}", known()))
}

/// The model of a name, or the tiny one where only the bench itself is shown to work.
#[cfg(feature = "walk")]
pub fn one(effort: crate::program::Effort, name: &str) -> anyhow::Result<&'static Model> {
    match effort {
        crate::program::Effort::Quick => Ok(&TINY),
        crate::program::Effort::Full => by_name(name).map_err(anyhow::Error::msg),
    }
}

/// Where files are kept unless said otherwise: in the target folder that this program was built to.
pub fn folder_beside(program: &Path) -> PathBuf {
    let target = program.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    target.join("bench-models")
}

/// The folder of the files.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// Files in `folder`, which is made when it is needed.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The file of `model`; writes it unless it is there.
    pub fn ensure(&self, model: &Model) -> anyhow::Result<PathBuf> {
        let Some(recipe) = (model.recipe)() else {
            bail!("the writer of random models does not know this shape yet");
        };
        let header = header_bytes(GGUF_VERSION, &recipe.metadata(), &recipe.tensors());
        let file = self.folder.join(format!("{}-{:016x}.gguf", model.name, hash(&recipe, &header)));
        if file.is_file() {
            return Ok(file);
        }
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        let needed = header.len() as u64 + weight_bytes(&recipe);
        check_room(needed, free_bytes(&self.folder), &self.folder)?;
        report::loud(&format!("writing {} ({} MB)", file.display(), needed / 1_000_000));
        // Under another name until it is whole, so that a broken-off run leaves no half model.
        let part = file.with_extension("part");
        let written = recipe.write(&part).and_then(|()| std::fs::rename(&part, &file));
        if let Err(error) = written {
            // What is left of it helps nobody; that it cannot be removed either is said by the
            // error.
            let _ = std::fs::remove_file(&part);
            return Err(error).with_context(|| format!("cannot write {}", file.display()));
        }
        Ok(file)
    }
}

fn hash(recipe: &Recipe, header: &[u8]) -> u64 {
    // Its keys are fixed; should another release of Rust count differently, a file is written anew.
    let mut hasher = DefaultHasher::new();
    format!("{recipe:?}").hash(&mut hasher);
    header.hash(&mut hasher);
    hasher.finish()
}

fn weight_bytes(recipe: &Recipe) -> u64 {
    let bytes = |dimensions: &[u64], kind: nook_model::gguf::TensorType| {
        let columns = dimensions.first().copied().unwrap_or(0);
        kind.bytes(columns, dimensions.iter().skip(1).product()).unwrap_or(0)
    };
    recipe.tensors().iter().map(|tensor| bytes(&tensor.dimensions, tensor.kind)).sum()
}

/// Free bytes on the disk of `folder`; `None` where the system does not say.
fn free_bytes(folder: &Path) -> Option<u64> {
    let folder = folder.canonicalize().ok()?;
    let disks = Disks::new_with_refreshed_list().ok()?;
    let holding = disks.iter().filter(|disk| folder.starts_with(disk.mount_point()));
    let nearest = holding.max_by_key(|disk| disk.mount_point().components().count())?;
    Some(nearest.available_space())
}

fn check_room(needed: u64, free: Option<u64>, folder: &Path) -> anyhow::Result<()> {
    let reserve = needed.min(DISK_RESERVE_MAX);
    match free {
        Some(free) if free < needed.saturating_add(reserve) => bail!(
            "{} has {} MB free, and {} MB are needed with {} MB to spare; free some, or name another \
             folder with --models",
            folder.display(),
            free / 1_000_000,
            needed / 1_000_000,
            reserve / 1_000_000
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::in_folder(folder.path().join("models"));
        let file = files.ensure(&TINY).unwrap();
        let recipe = (TINY.recipe)().unwrap();
        let length = std::fs::metadata(&file).unwrap().len();
        assert!(length >= weight_bytes(&recipe), "{length}");
        std::fs::write(&file, b"still this one").unwrap();
        assert_eq!(files.ensure(&TINY).unwrap(), file);
        assert_eq!(std::fs::read(&file).unwrap(), b"still this one");
        assert_eq!(std::fs::read_dir(folder.path().join("models")).unwrap().count(), 1);
    }

    #[test]
    fn another_recipe_is_another_file() {
        let header =
            |recipe: &Recipe| header_bytes(GGUF_VERSION, &recipe.metadata(), &recipe.tensors());
        let one = Recipe::tiny(Format::Q8_0, 1);
        let other = Recipe { seed: 2, ..one.clone() };
        assert_eq!(header(&one), header(&other));
        assert_ne!(hash(&one, &header(&one)), hash(&other, &header(&other)));
        assert_eq!(hash(&one, &header(&one)), hash(&one.clone(), &header(&one)));
    }

    #[test]
    fn a_full_disk_is_told_before_anything_is_written() {
        let folder = Path::new("there");
        let error = check_room(800_000_000, Some(1_000_000_000), folder).unwrap_err().to_string();
        assert!(error.contains("there has 1000 MB free, and 800 MB are needed"), "{error}");
        check_room(800_000_000, Some(3_000_000_000), folder).unwrap();
        check_room(800_000_000, None, folder).unwrap();
        // A file of a test needs no room for another model.
        check_room(5_000_000, Some(1_000_000_000), folder).unwrap();
        check_room(5_000_000_000, Some(6_000_000_000), folder).unwrap_err();
        let error = check_room(u64::MAX, Some(1), folder).unwrap_err().to_string();
        assert!(error.contains("0 MB free"), "{error}");
    }

    #[test]
    fn a_shape_that_cannot_be_written_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let unknown = Model { name: "unknown", title: "unknown", recipe: || None };
        let files = Files::in_folder(folder.path().to_owned());
        assert!(files.ensure(&unknown).unwrap_err().to_string().contains("does not know"));
    }

    #[test]
    fn names_are_those_of_the_table() {
        assert_eq!(by_name("llama-1b-q6_k").unwrap().title, "Llama-3.2-1B shape Q6_K");
        assert!(by_name("tiny").unwrap_err().contains("llama-1b-q4_k_m, llama-1b-q8_0"));
    }
}

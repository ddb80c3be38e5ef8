//! Model files that other programs of this user already hold: looked for, never touched.
//!
//! Each program has its usual folders ([`Elsewhere::usual`]); a look walks them with limits, reads
//! the first bytes of what may be a model and, for Ollama, the manifests that give its blobs their
//! names. Nothing is opened for writing and nothing is taken: the owner chooses what the library
//! then uses in its place. Whether a file is a model that this program understands is
//! `nook-model`'s knowledge.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use nook_base::env;
use serde::Deserialize;

/// Most files that one look finds; further ones are left out.
pub const FOUND_MAX: usize = 200;

/// Most folders and files that one look passes in one program's folder; the rest is left out.
const PASSED_MAX: usize = 20_000;

/// Deepest folder below a program's own.
const DEPTH_MAX: usize = 7;

/// A longer manifest is not one of Ollama's.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// How every GGUF file begins.
const MAGIC: &[u8] = b"GGUF";

/// The kind of an Ollama layer that is a model file.
const OLLAMA_MODEL: &str = "application/vnd.ollama.image.model";

/// A program that holds model files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keeper {
    /// What `huggingface_hub` has fetched.
    HuggingFace,
    /// Jan.
    Jan,
    /// llama.cpp's own cache.
    LlamaCpp,
    /// LM Studio.
    LmStudio,
    /// Ollama.
    Ollama,
}

/// A model file of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Whose it is.
    pub keeper: Keeper,
    /// Its name there, for people.
    pub name: String,
    /// Where it is; a whole path without links.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Elsewhere {
    folders: Vec<(Keeper, PathBuf)>,
}

#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

impl Keeper {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HuggingFace => "Hugging Face",
            Self::Jan => "Jan",
            Self::LlamaCpp => "llama.cpp",
            Self::LmStudio => "LM Studio",
            Self::Ollama => "Ollama",
        }
    }
}

impl Elsewhere {
    /// The usual folders of this user on this system, and those that the programs' own variables
    /// name.
    #[must_use]
    pub fn usual() -> Self {
        let mut folders = Vec::new();
        let mut add = |keeper, folder: Option<PathBuf>| {
            folders.extend(folder.map(|folder| (keeper, folder)));
        };
        let named = |variable: &str| env::raw(variable).map(PathBuf::from);
        add(Keeper::Ollama, named("OLLAMA_MODELS"));
        add(Keeper::LlamaCpp, named("LLAMA_CACHE"));
        add(Keeper::HuggingFace, named("HF_HUB_CACHE"));
        add(Keeper::HuggingFace, named("HF_HOME").map(|home| home.join("hub")));
        if let Some(user) = directories::BaseDirs::new() {
            let (home, cache, data) = (user.home_dir(), user.cache_dir(), user.data_dir());
            add(Keeper::LmStudio, Some(home.join(".lmstudio/models")));
            add(Keeper::LmStudio, Some(home.join(".cache/lm-studio/models")));
            add(Keeper::Ollama, Some(home.join(".ollama/models")));
            add(Keeper::Jan, Some(data.join("Jan/data/llamacpp/models")));
            add(Keeper::LlamaCpp, Some(cache.join("llama.cpp")));
            add(Keeper::HuggingFace, Some(home.join(".cache/huggingface/hub")));
        }
        // Where its Linux service, which is a user of its own, keeps them; readable by everybody.
        add(Keeper::Ollama, Some(PathBuf::from("/usr/share/ollama/.ollama/models")));
        Self { folders }
    }

    /// These folders only.
    #[must_use]
    pub fn at(folders: Vec<(Keeper, PathBuf)>) -> Self {
        Self { folders }
    }

    /// Looks; waits for the disk. Each file once, by program and name.
    #[must_use]
    pub fn look(&self) -> Vec<FoundFile> {
        let mut found = Vec::new();
        for (keeper, folder) in &self.folders {
            match keeper {
                // Its blobs have no names; its manifests, one for each model and tag, say which are
                // models.
                Keeper::Ollama => {
                    walk(&folder.join("manifests"), &mut |path| found.extend(blob(folder, path)));
                }
                _ => walk(folder, &mut |path| {
                    if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")) {
                        found.extend(gguf(*keeper, path, file_stem(path)));
                    }
                }),
            }
        }
        found.sort_by(|a: &FoundFile, b| {
            (a.keeper, &a.name, &a.path).cmp(&(b.keeper, &b.name, &b.path))
        });
        let mut seen = BTreeSet::new();
        found.retain(|file| seen.insert(file.path.clone()));
        found.truncate(FOUND_MAX);
        found
    }
}

/// Shows `see` what lies below `folder` and is no folder itself. Links to folders are not followed,
/// so no walk goes in circles.
fn walk(folder: &Path, see: &mut dyn FnMut(&Path)) {
    let (mut open, mut passed) = (vec![(folder.to_owned(), 0)], 0);
    while let Some((folder, depth)) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            passed += 1;
            if passed > PASSED_MAX {
                return;
            }
            let path = entry.path();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                see(&path);
            } else if depth < DEPTH_MAX {
                open.push((path, depth + 1));
            }
        }
    }
}

/// The model file that a manifest names. Its text is not believed: a digest is 64 digits, nothing
/// else.
fn blob(folder: &Path, manifest: &Path) -> Option<FoundFile> {
    // Only a file: a pipe would be waited for.
    let about = fs::metadata(manifest).ok().filter(fs::Metadata::is_file)?;
    if about.len() > MANIFEST_BYTES_MAX {
        return None;
    }
    let read: Manifest = serde_json::from_slice(&fs::read(manifest).ok()?).ok()?;
    let layer = read.layers.iter().find(|layer| layer.media_type == OLLAMA_MODEL)?;
    let digits = layer.digest.strip_prefix("sha256:")?;
    let good = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let path = good.then(|| folder.join("blobs").join(format!("sha256-{digits}")))?;
    let tag = manifest.file_name()?.to_string_lossy();
    let model = manifest.parent()?.file_name()?.to_string_lossy();
    gguf(Keeper::Ollama, &path, format!("{model}:{tag}"))
}

/// The file at `path`, if it begins as a model does.
fn gguf(keeper: Keeper, path: &Path, name: String) -> Option<FoundFile> {
    let path = fs::canonicalize(path).ok()?;
    let about = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let mut begins = [0; 4];
    File::open(&path).ok()?.read_exact(&mut begins).ok()?;
    (begins == MAGIC).then_some(FoundFile { keeper, name, path, bytes: about.len() })
}

fn file_stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn names(found: &[FoundFile]) -> Vec<(&str, &str, u64)> {
        found.iter().map(|it| (it.keeper.name(), it.name.as_str(), it.bytes)).collect()
    }

    #[test]
    fn what_other_programs_hold_is_found_by_its_name_there() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        write(&at("lm/Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf"), b"GGUF....");
        write(&at("lm/Qwen/Qwen3-4B-GGUF/notes.txt"), b"GGUF");
        write(&at("lm/broken.gguf"), b"<html>");
        write(&at("lm/short.gguf"), b"GG");
        let digest = "0".repeat(64);
        write(&at(&format!("ollama/blobs/sha256-{digest}")), b"GGUF-blob");
        let manifest = |digest: &str| {
            format!(
                r#"{{"schemaVersion":2,"layers":[{{"mediaType":"{OLLAMA_MODEL}","digest":"sha256:{digest}","size":9}}]}}"#
            )
        };
        let library = "ollama/manifests/registry.ollama.ai/library/gemma3";
        write(&at(&format!("{library}/4b")), manifest(&digest).as_bytes());
        write(&at(&format!("{library}/evil")), manifest("../../../etc/passwd").as_bytes());
        write(&at(&format!("{library}/gone")), manifest(&"1".repeat(64)).as_bytes());
        write(&at(&format!("{library}/noise")), b"{");
        let look = Elsewhere::at(vec![
            (Keeper::LmStudio, at("lm")),
            (Keeper::LmStudio, at("lm/Qwen")),
            (Keeper::Ollama, at("ollama")),
            (Keeper::Jan, at("not there")),
        ]);
        let found = look.look();
        let expected = [("LM Studio", "Qwen3-4B-Q4_K_M", 8), ("Ollama", "gemma3:4b", 9)];
        assert_eq!(names(&found), expected);
        assert!(found.iter().all(|file| file.path.is_absolute()));
    }

    #[cfg(unix)]
    #[test]
    fn links_to_files_are_followed_and_links_to_folders_are_not() {
        use std::os::unix::fs::symlink;
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        write(&at("hub/models--o--r/blobs/0a1b"), b"GGUF....");
        fs::create_dir_all(at("hub/models--o--r/snapshots/main")).unwrap();
        symlink("../../blobs/0a1b", at("hub/models--o--r/snapshots/main/m.gguf")).unwrap();
        symlink("..", at("hub/models--o--r/circle")).unwrap();
        symlink("nowhere", at("hub/dangling.gguf")).unwrap();
        let found = Elsewhere::at(vec![(Keeper::HuggingFace, at("hub"))]).look();
        assert_eq!(names(&found), [("Hugging Face", "m", 8)]);
        assert!(found[0].path.ends_with("blobs/0a1b"), "{found:?}");
    }

    #[test]
    fn the_usual_folders_are_whole_paths() {
        let usual = Elsewhere::usual();
        assert!(usual.folders.len() >= 6 || directories::BaseDirs::new().is_none());
        for (keeper, folder) in &usual.folders {
            assert!(cfg!(windows) || folder.is_absolute(), "{keeper:?} {}", folder.display());
        }
    }
}

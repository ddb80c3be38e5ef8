//! `cargo xtask bundle --cuda`: the worker program for NVIDIA's cards, apart from the packages.
//!
//! It is built where a CUDA toolkit is: that of the environment, of the search path, or NVIDIA's
//! packages for Python. It goes into no package: only a card can show that it is worth its size.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::bundle::{Profile, contents};
use crate::places::Places;
use crate::process::{Program, cargo};
use crate::stages::build;
use crate::{outside, say};

/// The program, its package and the feature that brings CUDA's code.
const PROGRAM: &str = "nook-worker-cuda";

/// Variables that name the folder of a toolkit, in the order in which they are looked at.
const FOLDERS: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
/// All by which the crates that are built look for it.
const NAMES: [&str; 4] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"];

/// For which cards the kernels are made; see the README of `cudaforge`.
const CAPABILITY: &str = "CUDA_COMPUTE_CAP";

const HOW_TO_GET_A_TOOLKIT: &str = "\
no CUDA toolkit is here: neither CUDA_HOME nor CUDA_PATH names one, no `nvcc` is on the search path,
and no package of Python has one. Install NVIDIA's toolkit, version 13.0; its compiler and libraries are
also packages of Python (nvidia-cuda-nvcc and others, see `Graphics cards` in packaging/README.md).
Everything else of Inglenook builds without it.";

/// Builds the program and says where it lies.
pub(crate) fn command(places: &Places, profile: Profile) -> Result<()> {
    let toolkit = toolkit(places)?;
    if outside::variable(CAPABILITY).is_none() && outside::find_program("nvidia-smi").is_none() {
        bail!(
            "for which cards? No card answers here (no `nvidia-smi`), so set {CAPABILITY}, as in \
             {CAPABILITY}=80 for those from 2020 on (Ampere and Ada)"
        );
    }
    say::line(&format!("CUDA toolkit: {}", toolkit.display()));
    let build = cargo(&places.root)
        .args(["build", "--package", PROGRAM, "--features", "cuda", "--bin", PROGRAM])
        .args((profile == Profile::Release).then_some("--release"))
        .env("PATH", searched(&toolkit)?);
    let build = NAMES.iter().fold(build, |build, name| build.env(name, &toolkit));
    let built = build::collected(build)?;
    let program = built.program(PROGRAM).context("the program was not built")?;
    let folder = places.made(Path::new("packages").join(profile.folder()).join("cuda"))?;
    let into = contents::fresh(&folder)?.join(PROGRAM);
    std::fs::copy(program, &into)?;
    let megabytes = into.metadata()?.len() as f64 / 1e6;
    say::line(&format!("program {} {megabytes:.2} MB", into.display()));
    say::line("It is used where it lies beside `nook`, with the setting `candle:cuda:0`.");
    Ok(())
}

/// The folder of a CUDA toolkit, the one that holds `bin/nvcc`.
fn toolkit(places: &Places) -> Result<PathBuf> {
    let named = FOLDERS.iter().filter_map(|name| outside::variable(name)).map(PathBuf::from);
    let on_path = outside::find_program("nvcc")
        .and_then(|nvcc| nvcc.canonicalize().ok())
        .and_then(|nvcc| Some(nvcc.parent()?.parent()?.to_owned()));
    first_with_compiler(named.chain(on_path).chain(of_python(places))).context(HOW_TO_GET_A_TOOLKIT)
}

/// Folders of NVIDIA's packages in the Python of the search path: `nvidia/cu13` and the like.
fn of_python(places: &Places) -> Vec<PathBuf> {
    let script = "import nvidia; print(*nvidia.__path__, sep='\\n')";
    let said = Program::new("python3", &places.root).args(["-c", script]).output_quietly();
    let folders = said.unwrap_or_default();
    let inside = folders.lines().filter_map(|folder| std::fs::read_dir(folder).ok());
    let mut found: Vec<PathBuf> = inside.flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    // The newest.
    found.reverse();
    found
}

fn first_with_compiler(folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let compiler = format!("nvcc{}", std::env::consts::EXE_SUFFIX);
    folders.into_iter().find(|folder| folder.join("bin").join(&compiler).is_file())
}

/// The search path with the toolkit's programs first.
fn searched(toolkit: &Path) -> Result<OsString> {
    let path = outside::variable("PATH").unwrap_or_default();
    let folders = [toolkit.join("bin")].into_iter().chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolkit_is_where_its_compiler_is() {
        let folder = Places::find().unwrap().made("cuda-test").unwrap();
        let [empty, full] = ["empty", "full"].map(|name| folder.join(name));
        for folder in [&empty, &full] {
            std::fs::create_dir_all(folder.join("bin")).unwrap();
        }
        let compiler = format!("bin/nvcc{}", std::env::consts::EXE_SUFFIX);
        std::fs::write(full.join(compiler), "").unwrap();
        let found = first_with_compiler([empty.clone(), full.clone()].into_iter());
        assert_eq!(found, Some(full));
        assert_eq!(first_with_compiler([empty].into_iter()), None);
        assert!(HOW_TO_GET_A_TOOLKIT.contains("nvidia-cuda-nvcc"));
    }
}

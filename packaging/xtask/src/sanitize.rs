//! `cargo xtask sanitize`: the tests of the kernels, and of the models over them, where wrong
//! memory accesses are seen.
//!
//! AddressSanitizer sees the most and runs every instruction set of the processor. Its runtime
//! comes with some toolchains; the flag that turns it on is unstable, so `RUSTC_BOOTSTRAP` is set
//! for this one build, in a folder of its own. Otherwise valgrind runs the usual test programs; it
//! shows them a processor without AVX-512, so the plain and the AVX2 kernels run. What was not run
//! is said loudly.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};

use crate::places::Places;
use crate::process::{Program, cargo};
use crate::stages::build::{self, TestProgram};
use crate::{outside, say};

/// The only package with unsafe code, and the one that runs whole models over it.
const KERNELS: &str = "nook-kernels";
const MODELS: &str = "nook-model";

/// A test program that takes longer hangs.
const PROGRAM_LIMIT: Duration = Duration::from_secs(60 * 60);

/// What to look with.
#[derive(Debug, Args)]
pub(crate) struct SanitizeOptions {
    /// Which tool; the best that this machine has, when not given
    #[arg(long, value_enum)]
    with: Option<Tool>,
    /// The kernels' tests only, without the models'
    #[arg(long)]
    kernels_only: bool,
}

/// What sees wrong memory accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Compiled in: all kernels and models, every instruction set of the processor
    Address,
    /// Any build, 20 to 50 times slower: the plain and AVX2 kernels (no models)
    Valgrind,
}

/// Runs what can be had, and says what cannot.
pub(crate) fn sanitize(places: &Places, options: &SanitizeOptions) -> Result<()> {
    let compiler = Compiler::ask(&places.root)?;
    let runtime = compiler.address_runtime();
    let valgrind = outside::find_program("valgrind");
    let tool = match (options.with, &runtime, &valgrind) {
        (None | Some(Tool::Address), Some(_), _) => Tool::Address,
        (None | Some(Tool::Valgrind), _, Some(_)) => Tool::Valgrind,
        _ => bail!(
            "nothing was run: {} has no AddressSanitizer runtime, or valgrind is missing",
            compiler.target
        ),
    };
    match tool {
        Tool::Address => address(places, &compiler, options.kernels_only)?,
        Tool::Valgrind => under_valgrind(places)?,
    }
    say::heading("what was not run");
    if tool == Tool::Valgrind {
        say::loud("AddressSanitizer, the AVX-512 kernels, and the models' tests");
    } else if cfg!(target_arch = "x86_64") && !has_avx512() {
        say::loud("the AVX-512 kernels: this processor does not have it");
    }
    say::loud("Miri, which needs a nightly toolchain");
    say::loud("ThreadSanitizer, which needs a standard library built with it");
    Ok(())
}

/// The tests in a build of their own with AddressSanitizer; the first wrong access ends one.
fn address(places: &Places, compiler: &Compiler, kernels_only: bool) -> Result<()> {
    say::heading("AddressSanitizer");
    let packages = if kernels_only { &[KERNELS][..] } else { &[KERNELS, MODELS] };
    let build = tests_of(places, packages)
        // With a target named, build scripts and macros stay as they are.
        .args(["--target", &compiler.target])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("CARGO_TARGET_DIR", places.made("sanitize")?);
    // Tests ask for impossible amounts of memory and expect a refusal, as the usual allocator
    // gives.
    let options =
        "detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1";
    run_all(build::collected(build)?.tests, |test| {
        Program::new(&test.program, &test.folder).env("ASAN_OPTIONS", options)
    })
}

/// The kernels' usual test programs in valgrind's memcheck.
fn under_valgrind(places: &Places) -> Result<()> {
    say::heading("valgrind memcheck");
    let built = build::collected(tests_of(places, &[KERNELS]))?;
    run_all(built.tests, |test| {
        Program::new("valgrind", &test.folder)
            .args(["--quiet", "--error-exitcode=99", "--leak-check=no"])
            .args([&test.program])
    })
}

/// A build of all test programs of some packages.
fn tests_of(places: &Places, packages: &[&str]) -> Program {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    cargo(&places.root).args(["build", "--tests"]).args(packages)
}

fn run_all(tests: Vec<TestProgram>, program: impl Fn(&TestProgram) -> Program) -> Result<()> {
    let mut failed = Vec::new();
    let (count, started) = (tests.len(), outside::now());
    for test in tests {
        let program = program(&test).env("CARGO_MANIFEST_DIR", &test.folder).within(PROGRAM_LIMIT);
        if program.run().is_err() {
            failed.push(format!("{} ({})", test.package, test.target));
        }
    }
    if !failed.is_empty() {
        bail!("{} of {count} test programs failed: {}", failed.len(), failed.join(", "));
    }
    say::line(&format!("{count} test programs, {:.0} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// The compiler that Cargo calls.
#[derive(Debug)]
struct Compiler {
    /// What it compiles for when not told otherwise.
    target: String,
    /// Where the libraries for that lie.
    libraries: PathBuf,
}

impl Compiler {
    fn ask(folder: &Path) -> Result<Self> {
        let rustc = outside::variable("RUSTC").unwrap_or_else(|| "rustc".into());
        let about = Program::new(&rustc, folder).args(["-vV"]).output()?;
        let libraries = Program::new(&rustc, folder).args(["--print", "target-libdir"]).output()?;
        let target = host(&about).context("`rustc -vV` names no host")?;
        Ok(Self { target: target.to_owned(), libraries: PathBuf::from(libraries.trim()) })
    }

    /// The runtime of AddressSanitizer, if it came with the toolchain.
    fn address_runtime(&self) -> Option<PathBuf> {
        let files = self.libraries.read_dir().ok()?;
        let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
        paths.find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().contains("_rt.asan."))
        })
    }
}

/// The host in what `rustc -vV` says.
fn host(about: &str) -> Option<&str> {
    about.lines().find_map(|line| line.strip_prefix("host: "))
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_from_what_the_compiler_says() {
        let about =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n";
        assert_eq!(host(about), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(host("rustc"), None);
    }
}

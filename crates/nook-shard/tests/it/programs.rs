//! Which program becomes the worker: this one, or the one for NVIDIA's cards beside it.
//!
//! Both are links to this test program, which is a worker without CUDA's code; what would need a
//! card is not tried here.

use std::path::{Path, PathBuf};

use nook_base::tasks::Tasks;
use nook_base::{Backend, ErrorCode, ModelPart};
use nook_shard::{CUDA_WORKER, Worker, WorkerCommand, WorkerError, WorkerLimits, WorkerStartError};

use crate::host::{LAYERS, MODEL, limits, small};

const CUDA: Backend = Backend::CandleCuda(0);

/// A folder with programs in it.
struct Installed {
    folder: tempfile::TempDir,
    tasks: Tasks,
}

impl Installed {
    /// The usual program alone.
    fn usual() -> Self {
        let folder = tempfile::Builder::new().prefix("nook-").tempdir().unwrap();
        let installed = Self { folder, tasks: Tasks::new() };
        installed.put("nook");
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    fn put(&self, name: &str) {
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), self.path(name)).unwrap();
    }

    async fn start(&self, backend: Backend) -> Result<Worker, WorkerStartError> {
        let arguments = ["the_worker_itself", "--exact", "--nocapture", "--"];
        let arguments = arguments.map(Into::into).to_vec();
        let command = WorkerCommand { program: self.path("nook"), arguments };
        let limits = WorkerLimits { backend, ..limits(1, 1 << 30) };
        Worker::start(&command, self.folder.path(), limits, &self.tasks).await
    }

    /// What the worker says to loading a model.
    async fn refusal(&self, worker: &Worker) -> (ErrorCode, String) {
        let file = self.folder.path().join("tiny.gguf");
        small(&file);
        match worker.load(&file, MODEL, ModelPart::whole(LAYERS)).await {
            Err(WorkerError::Refused { code, sentence }) => (code, sentence),
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

/// The program that a process runs.
#[cfg(target_os = "linux")]
fn program_of(worker: &Worker) -> PathBuf {
    let words = std::fs::read(format!("/proc/{}/cmdline", worker.pid())).unwrap();
    let first = words.split(|byte| *byte == 0).next().unwrap();
    PathBuf::from(String::from_utf8(first.to_vec()).unwrap())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_program_beside_this_one_is_the_worker_for_cuda_and_for_nothing_else() {
    let installed = Installed::usual();
    installed.put(CUDA_WORKER);
    let worker = installed.start(CUDA).await.unwrap();
    assert_eq!(program_of(&worker), installed.path(CUDA_WORKER));
    // It was built without CUDA's code, and says so over the messages of every worker.
    let (code, sentence) = installed.refusal(&worker).await;
    assert_eq!(code, ErrorCode::GpuMissing, "{sentence}");
    assert!(sentence.contains("NVIDIA card 0") && !sentence.contains("damaged"), "{sentence}");
    for backend in [Backend::Auto, Backend::Native, Backend::Candle, Backend::CandleMetal(0)] {
        let worker = installed.start(backend).await.unwrap();
        assert_eq!(program_of(&worker), installed.path("nook"), "{backend}");
    }
}

#[tokio::test]
async fn without_that_program_the_usual_one_says_which_is_missing() {
    let installed = Installed::usual();
    let worker = installed.start(CUDA).await.unwrap();
    let (code, sentence) = installed.refusal(&worker).await;
    assert_eq!(code, ErrorCode::GpuMissing);
    assert!(sentence.contains(CUDA_WORKER) && sentence.contains("`gpu`"), "{sentence}");
    assert!(!sentence.contains("damaged"), "{sentence}");
}

/// A program that is linked against a driver's library, which then is taken away: what the system
/// says to it is what it says to CUDA's code where no driver is.
#[cfg(target_os = "linux")]
fn linked_against_a_missing_driver(program: &Path) {
    let folder = program.parent().unwrap();
    let library = folder.join("libcuda.so.1");
    let source = folder.join("main.c");
    std::fs::write(&source, "int cuInit(unsigned);\nint main(void) { return cuInit(0); }\n")
        .unwrap();
    let driver = folder.join("driver.c");
    std::fs::write(&driver, "int cuInit(unsigned flags) { return (int)flags; }\n").unwrap();
    let compiled = |words: &[&std::ffi::OsStr]| {
        let ran = std::process::Command::new("cc").args(words).status().unwrap();
        assert!(ran.success(), "cc {words:?}");
    };
    let soname = "-Wl,-soname,libcuda.so.1";
    compiled(&[
        "-shared".as_ref(),
        soname.as_ref(),
        "-o".as_ref(),
        library.as_ref(),
        driver.as_ref(),
    ]);
    compiled(&["-o".as_ref(), program.as_ref(), source.as_ref(), library.as_ref()]);
    std::fs::remove_file(library).unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_that_finds_no_driver_is_told_with_the_way_out() {
    let installed = Installed::usual();
    linked_against_a_missing_driver(&installed.path(CUDA_WORKER));
    let error = installed.start(CUDA).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::GpuMissing, "{error}");
    let sentence = error.to_string();
    for part in [CUDA_WORKER, "libcuda.so.1", "driver", "`distributed_inference.backend`"] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    // One that cannot be started at all.
    std::fs::remove_file(installed.path(CUDA_WORKER)).unwrap();
    std::fs::write(installed.path(CUDA_WORKER), "no program").unwrap();
    let error = installed.start(CUDA).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::GpuMissing, "{error}");
    // The usual program goes on.
    assert!(installed.start(Backend::Native).await.is_ok());
}

//! Faults that a test orders: no real card fails when a test wants it to, and no memory is short. Only builds with
//! the feature `test-faults` and debug assertions have this: no package is built with either.

use std::path::PathBuf;

use nook_base::{Backend, env};
use nook_model::LoadedModel;
use nook_model::nook_gpu::{Choice, Gpu, OpenOptions};

/// Names a file. Once it is obeyed it is deleted, so that a worker that is started again does well.
const ORDER: &str = "INGLENOOK_TEST_GPU";

/// The most memory that [`crate::confinement::MemoryBound`] lets a process have, in bytes.
const MEMORY: &str = "INGLENOOK_TEST_MEMORY";

/// What a test lets a process have beside what it begins with.
pub(crate) fn memory() -> Option<u64> {
    env::text(MEMORY)?.parse().ok()
}

/// A card with so little memory of its own as the file says: `budget 4096`.
pub(crate) fn small_gpu(backend: Backend) -> Option<Gpu> {
    let Backend::GpuAt(number) = backend else { return None };
    let (choice, budget, shares_memory) =
        (Choice::Index(number), Some(order("budget")?), Some(false));
    let options = OpenOptions { choice, budget, shares_memory, ..Default::default() };
    let gpu = Gpu::open(&options).expect("a test that orders this has a GPU");
    obeyed();
    Some(gpu)
}

/// Ends the GPU after so many steps as the file says (`lose 12`), or the compute thread
/// (`panic 12`).
pub(crate) fn obey(model: &LoadedModel, steps_done: u64) {
    if order("panic").is_some_and(|after| steps_done >= after) {
        obeyed();
        panic!("a test wants the compute thread to panic");
    }
    let Some(gpu) = model.gpu() else { return };
    if order("lose").is_some_and(|after| steps_done >= after) {
        gpu.destroy();
        obeyed();
    }
}

fn file() -> Option<PathBuf> {
    env::raw(ORDER).map(PathBuf::from)
}

/// The number that follows `word` in the file.
fn order(word: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file()?).ok()?;
    text.trim().strip_prefix(word)?.trim().parse().ok()
}

fn obeyed() {
    let file = file().expect("it has just been read");
    std::fs::remove_file(file).expect("a test's file can be deleted");
}

//! One open GPU: its limits and features, its memory budget, its pipelines, and whether it still
//! lives.
//!
//! [`Gpu`] is a handle; clones share the device. Errors that wgpu would panic on are kept here and
//! come out of the next call that waits; where it panics all the same, as on a reset in the middle
//! of a wait, the device counts as lost. A device that is lost stays lost: its owner opens it again
//! later.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use nook_kernels::Format;
use wgpu::{BindGroupLayout, Features, Limits};

use crate::adapter::{AdapterInfo, Choice, choose};
use crate::buffer::Buffer;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::ledger::Ledger;

/// Longest wait for a GPU. Work is submitted in pieces far shorter, and a driver resets a card that
/// is busy for some seconds, so one that has not answered by then will not.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Share of a card's own memory that is used where no budget was set.
const MEMORY_SHARE: f64 = 0.8;

/// Multiplications of one submission: about 50 ms of an integrated GPU that does 400 thousand
/// million in a second. A driver resets a card that one submission keeps busy for two seconds
/// (Windows), and the desktop and a cancellation get in between two. A decode step stays below it.
const SUBMISSION_WORK_MAX: u64 = 20_000_000_000;

/// Which kernels compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelSet {
    /// In the order of `nook-kernels`, bit for bit: the oracle of the others. Slow.
    Exact,
    /// For WebGPU's minimum: workgroup memory, no subgroups.
    Portable,
    /// Sums by subgroup operations.
    Subgroup,
}

/// How a GPU is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Which one.
    pub choice: Choice,
    /// Bytes of its memory that may be used. Without it: 80 % of what the card is known to have;
    /// where nothing is known, the driver alone limits.
    pub budget: Option<u64>,
    /// Which kernels, where the device has them; without it the fastest that it has.
    pub kernels: Option<KernelSet>,
    /// Largest binding in bytes, if it is to be smaller than the device's own limit.
    pub binding_bytes: Option<u64>,
    /// Multiplications of one submission, if they are to be fewer than usual.
    pub submission_work: Option<u64>,
    /// Whether its memory counts as the computer's own, if not as the driver says.
    pub shares_memory: Option<bool>,
}

/// An open GPU.
#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) kernels: KernelSet,
    pub(crate) binding_bytes: u64,
    submission_work: u64,
    /// Layout of the parameters of every kernel.
    pub(crate) params_layout: BindGroupLayout,
    info: AdapterInfo,
    health: Arc<Health>,
    /// Kernels by name, built when first used. The lock guards the table alone.
    built: Mutex<HashMap<String, Arc<Kernel>>>,
    /// Codebooks, for as long as a matrix needs them. The lock guards the table alone.
    tables: Mutex<HashMap<Format, Weak<Buffer>>>,
}

/// What the driver has said outside of any call. The lock guards one text each.
#[derive(Debug, Default)]
struct Health {
    lost: Mutex<Option<String>>,
    refused: Mutex<Option<Fault>>,
}

#[derive(Debug, Clone)]
enum Fault {
    Memory,
    Other(String),
}

impl Gpu {
    /// Opens a GPU with the limits and features that it has.
    ///
    /// # Errors
    ///
    /// [`GpuError::Missing`], [`GpuError::UnknownAdapter`] or [`GpuError::Unusable`].
    pub fn open(options: &OpenOptions) -> Result<Self, GpuError> {
        let (adapter, mut info) = choose(&options.choice)?;
        info.shares_memory = options.shares_memory.unwrap_or(info.shares_memory);
        let unusable = |reason: String| GpuError::Unusable { name: info.name.clone(), reason };
        let may_use_subgroups =
            !matches!(options.kernels, Some(KernelSet::Exact | KernelSet::Portable));
        let mut wanted = Features::empty();
        if may_use_subgroups {
            wanted |= Features::SUBGROUP;
        }
        let features = adapter.features() & wanted;
        let has = adapter.limits();
        let limits = match options.kernels {
            // The floor: nothing beyond what every WebGPU device has.
            Some(KernelSet::Portable) => Limits::default().or_worse_values_from(&has),
            _ => has,
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| unusable(error.to_string()))?;
        let health = Arc::new(Health::default());
        watch(&device, &health);
        let best = if features.contains(Features::SUBGROUP) {
            KernelSet::Subgroup
        } else {
            KernelSet::Portable
        };
        let kernels = match options.kernels {
            None | Some(KernelSet::Subgroup) => best,
            Some(other) => other,
        };
        let own = u64::from(u32::MAX).min(limits.max_storage_buffer_binding_size);
        let binding_bytes = own.min(limits.max_buffer_size);
        let binding_bytes = binding_bytes.min(options.binding_bytes.unwrap_or(u64::MAX));
        let known = info.memory.map(|bytes| (bytes as f64 * MEMORY_SHARE) as u64);
        let budget = options.budget.or(known).unwrap_or(u64::MAX);
        let params_layout = crate::kernel::params_layout(&device);
        let inner = Inner {
            device,
            queue,
            ledger: Ledger::new(budget),
            kernels,
            binding_bytes,
            submission_work: options
                .submission_work
                .map_or(SUBMISSION_WORK_MAX, |work| work.min(SUBMISSION_WORK_MAX)),
            params_layout,
            info,
            health,
            built: Mutex::new(HashMap::new()),
            tables: Mutex::new(HashMap::new()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Which adapter it is.
    #[must_use]
    pub fn info(&self) -> &AdapterInfo {
        &self.inner.info
    }

    /// Which kernels compute.
    #[must_use]
    pub fn kernels(&self) -> KernelSet {
        self.inner.kernels
    }

    /// Bytes of its memory that are in use here.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.inner.ledger.used()
    }

    /// Bytes of its memory that may be used; `u64::MAX` where only the driver limits.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.inner.ledger.budget()
    }

    /// Multiplications after which whoever records should submit.
    #[must_use]
    pub fn submission_work(&self) -> u64 {
        self.inner.submission_work
    }

    /// Ends the device. Everything on it is gone, as after a reset by the driver.
    pub fn destroy(&self) {
        self.inner.device.destroy();
    }

    /// Whether it still lives, and nothing was refused since the last question.
    ///
    /// # Errors
    ///
    /// [`GpuError::Lost`] from then on; [`GpuError::Refused`] or [`GpuError::OutOfMemory`] once.
    pub fn check(&self) -> Result<(), GpuError> {
        if let Some(lost) = self.is_lost() {
            return Err(lost);
        }
        let refused = &self.inner.health.refused;
        let fault = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        match fault {
            None => Ok(()),
            Some(Fault::Memory) => Err(self.full("a command", 0)),
            Some(Fault::Other(reason)) => Err(self.refused(reason)),
        }
    }

    /// The error of a refused command: the loss of the device, where that is its cause.
    pub(crate) fn refused(&self, reason: String) -> GpuError {
        // The driver tells of a loss only when it is asked.
        let device = &self.inner.device;
        let _ = self.inner.health.asking(|| device.poll(wgpu::PollType::Poll));
        self.is_lost().unwrap_or(GpuError::Refused { reason })
    }

    fn is_lost(&self) -> Option<GpuError> {
        let lost = self.inner.health.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.as_deref().map(|reason| self.lost(reason))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Waits until everything that was submitted is done.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        let poll = wgpu::PollType::Wait { submission_index: None, timeout: Some(ANSWER_MAX) };
        let Inner { device, health, .. } = &*self.inner;
        match health.asking(|| device.poll(poll)) {
            Some(Ok(_)) => {}
            // Whoever asks next is not to wait as long again.
            Some(Err(error)) => health.lose(&error.to_string()),
            None => {}
        }
        self.check()
    }

    /// The kernel `name`, built by `make` if it was not before.
    pub(crate) fn kernel(
        &self,
        name: &str,
        make: impl FnOnce(&Self) -> Result<Kernel, GpuError>,
    ) -> Result<Arc<Kernel>, GpuError> {
        let table = || self.inner.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = table().get(name) {
            return Ok(Arc::clone(kernel));
        }
        let kernel = Arc::new(make(self)?);
        table().insert(name.to_owned(), Arc::clone(&kernel));
        Ok(kernel)
    }

    /// The codebook of `layout`, if it has one: one for all matrices.
    pub(crate) fn table(&self, layout: &Layout) -> Result<Option<Arc<Buffer>>, GpuError> {
        let Some(rows) = layout.table() else { return Ok(None) };
        let table = || self.inner.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = table().get(&layout.format).and_then(Weak::upgrade) {
            return Ok(Some(held));
        }
        let made = Arc::new(Buffer::of_words(self, "a codebook", &rows)?);
        table().insert(layout.format, Arc::downgrade(&made));
        Ok(Some(made))
    }

    /// The error of a driver that has no memory left, though the budget has.
    pub(crate) fn full(&self, what: &'static str, needed: u64) -> GpuError {
        let ledger = &self.inner.ledger;
        let (budget, used) = (ledger.budget(), ledger.used());
        GpuError::OutOfMemory { what, needed, free: budget.saturating_sub(used), budget }
    }

    fn lost(&self, reason: &str) -> GpuError {
        GpuError::Lost { name: self.inner.info.name.clone(), reason: reason.to_owned() }
    }
}

impl Health {
    /// Asks wgpu something that it may answer by a panic: a driver that was reset in the middle of a
    /// wait is none of the errors that it returns. `None`: it has panicked, and the device is lost.
    fn asking<T>(&self, ask: impl FnOnce() -> T) -> Option<T> {
        let answer = catch_unwind(AssertUnwindSafe(ask));
        answer.map_err(|_| self.lose("its driver failed while it was waited for")).ok()
    }

    /// The device is lost from now on; the first reason is the one that is told.
    fn lose(&self, reason: &str) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get_or_insert_with(|| reason.to_owned());
    }
}

/// Keeps what the driver says from now on. wgpu's own handler would end the program.
fn watch(device: &wgpu::Device, health: &Arc<Health>) {
    let kept = Arc::clone(health);
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        let fault = match error {
            wgpu::Error::OutOfMemory { .. } => Fault::Memory,
            other => Fault::Other(other.to_string()),
        };
        kept.refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }));
    let kept = Arc::clone(health);
    device.set_device_lost_callback(move |reason, text| {
        kept.lose(&if text.is_empty() { format!("{reason:?}") } else { text });
    });
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { info, kernels, .. } = &*self.inner;
        write!(f, "Gpu({} over {}, {kernels:?})", info.name, info.api)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_fails_while_it_is_asked_is_lost_for_good_by_its_first_reason() {
        let health = Health::default();
        assert_eq!(health.asking(|| 7), Some(7));
        assert_eq!(*health.lost.lock().unwrap(), None);
        let fails = health.asking(|| -> u32 { panic!("as wgpu does") });
        assert_eq!(fails, None);
        let said = health.lost.lock().unwrap().clone().unwrap();
        health.lose("something later");
        assert_eq!(health.lost.lock().unwrap().as_deref(), Some(said.as_str()));
    }
}

//! What a simulated house is, what befalls it, and what came of it.

use std::time::Duration;

use nook_base::{ActivationDtype, ErrorCode, LayerRange, PeerId};
use nook_pipeline::{FallBack, Measure, PrefixCacheEntry, Report, SpotCheck};
use nook_plan::Place;

use crate::world::Host;

/// Added to a peer's index in a [`Fault`]: of those that have a call at that moment.
pub(crate) const IN_USE: usize = 1_000;

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) layers: u32,
    pub(crate) prefix: u32,
    pub(crate) suffix: u32,
    pub(crate) peers: Vec<PeerCase>,
    pub(crate) prompt: Vec<u32>,
    pub(crate) reply: usize,
    pub(crate) chunk: u32,
    pub(crate) window: usize,
    pub(crate) dtype: ActivationDtype,
    pub(crate) failovers_max: u32,
    pub(crate) fall_back: FallBack,
    /// Layers that this device could compute besides those of its route.
    pub(crate) room_here: u32,
    /// This device has the weights of the two ends and of no other layer.
    pub(crate) only_ends: bool,
    pub(crate) replay_log_bytes_max: usize,
    pub(crate) spot_check: SpotCheck,
    pub(crate) faults: Vec<(usize, Fault)>,
    /// How devices that leave give what they remember, and how long that is said to take.
    pub(crate) giving: Option<(Giving, Duration)>,
    /// Every result comes a second time, this much later.
    pub(crate) echo: Option<Duration>,
    /// Offers of dead devices are still made.
    pub(crate) adverts_outlive: bool,
    /// Earlier replies have shown what each peer takes.
    pub(crate) knows_paces: bool,
    /// What a position is known to cost here, where it is known.
    pub(crate) step_here: Option<Duration>,
    pub(crate) forward: Hands,
    pub(crate) seed: u64,
}

impl Case {
    pub(crate) fn weights_here(&self) -> Vec<LayerRange> {
        if !self.only_ends {
            return vec![LayerRange::all(self.layers)];
        }
        let end = LayerRange::with_len(self.layers - self.suffix, self.suffix);
        vec![LayerRange::all(self.prefix), end]
    }
}

/// To whom the devices hand their results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hands {
    /// None can.
    Nobody,
    /// All are linked.
    Everybody,
    /// About half of them say no.
    Some,
}

#[derive(Debug, Clone)]
pub(crate) struct PeerCase {
    pub(crate) ranges: Vec<LayerRange>,
    pub(crate) streams: u16,
    pub(crate) step_us: u64,
    /// It has to read the layers first, which takes [`LOAD_LAYER`] each.
    pub(crate) is_cold: bool,
}

/// What a layer takes to read, as earlier replies have shown.
pub(crate) const LOAD_LAYER: Duration = Duration::from_secs(1);

/// What befalls the house; peers by index, wrapped; see also [`IN_USE`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The process is gone, the link says so.
    Kill(usize),
    /// The same, and it is back after this time.
    Away(usize, Duration),
    /// Nothing comes back any more, the link stays up.
    BlackHole(usize),
    /// Every step from now on takes so many times as long.
    Slow(usize, u64),
    /// Everything comes later by this much, then as before.
    Stall(usize, Duration),
    /// The next result takes this much longer to arrive, piece by piece.
    Trickle(usize, Duration),
    /// The next step is answered with an error.
    Error(usize, ErrorCode),
    /// The next result is wrong.
    Corrupt(usize, Garbage),
    /// Every result from now on is a little wrong, and looks right.
    Lie(usize),
    /// The next step does not fit the activation format, as the host says.
    Overflow(usize),
    /// Accepts no new call any more.
    Full(usize),
    /// Says that it leaves.
    Drain(usize),
    /// What it hands to another device does not get there any more; both notice.
    CutOff(usize),
    /// All calls to our own worker die; it starts again at once.
    LocalCrash,
    /// Our own worker accepts nothing but the two ends any more.
    LocalRefusesMiddle,
    /// The node forgets to answer a wish for offers.
    OffersUnanswered,
    /// The caller leaves.
    Cancel,
}

/// How a hand-over goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Giving {
    /// As it should.
    Works,
    /// The one that leaves gives nothing, and says so.
    NotGiven,
    /// It says nothing any more.
    Silent,
    /// Its link breaks.
    Broken,
    /// The one that takes over knows nothing of hand-overs.
    NotUnderstood,
    /// It refuses what it is given.
    Refused,
    /// It never says whether it has taken it.
    Unanswered,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Garbage {
    NotANumber,
    Zero,
    Copy,
    /// A thousand times too large; f32 only, f16 has no such numbers.
    Thousandfold,
    RowMissing,
    OtherType,
    OtherPosition,
    FutureStep,
    /// One number is another: no check of a single result can see that.
    Nudged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Aborted(ErrorCode),
}

pub(crate) struct Outcome {
    pub(crate) end: End,
    /// The layers that nobody computed, where the end says so.
    pub(crate) missing: Option<LayerRange>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) reports: Vec<Report>,
    pub(crate) measure: Measure,
    /// `attempt number, first position, count`, in the order sent.
    pub(crate) sends: Vec<(u64, u32, u32)>,
    /// The same for what went from host to host; the attempt that took it.
    pub(crate) forwarded: Vec<(u64, u32, u32)>,
    pub(crate) places: Vec<Place>,
    /// Where each attempt was opened, by attempt.
    pub(crate) attempts: Vec<Place>,
    /// Attempts closed as superseded.
    pub(crate) superseded: usize,
    /// When each token was chosen, since the start.
    pub(crate) times: Vec<Duration>,
    /// What a next prompt may go on with.
    pub(crate) prefix: Option<PrefixCacheEntry>,
    /// What hosts keep after calls that were closed in order.
    pub(crate) kept: Vec<Host>,
}

pub(crate) fn peer(index: usize) -> PeerId {
    PeerId([index as u8 + 1; 32])
}

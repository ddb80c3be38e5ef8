//! Keys and values of a session on a GPU, and attention over them.
//!
//! A cache holds (position, kv head, number) in one buffer each for keys and values, in half
//! precision (two numbers in a word) or single. Attention goes over them with an online softmax, so
//! scores are never in memory. Few rows over many positions are shared out among workgroups and
//! merged.

use crate::buffer::Buffer;
use crate::commands::{Commands, GROUPS_MAX};
use crate::device::Gpu;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::product::{check, spread};
use crate::template::{Values, expand};
use crate::vector::lines;

/// Positions that a workgroup looks at together.
const TILE: usize = 64;

/// Most query heads that a workgroup takes together.
const TOGETHER_MAX: usize = 4;

/// Most numbers of the queries of a workgroup: their part of the 16 KB that every device has.
const QUERY_NUMBERS_MAX: usize = 2560;

/// Workgroups that keep a GPU busy; with fewer, positions are shared out.
const BUSY_GROUPS: usize = 512;

/// Fewest tiles that are worth a share of their own.
const SHARE_TILES: usize = 4;

/// Most shares of one attention.
const SPLITS_MAX: usize = 16;

/// Sizes of what a layer remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Key-value heads.
    pub kv_heads: usize,
    /// Numbers of a key.
    pub key_dim: usize,
    /// Numbers of a value.
    pub value_dim: usize,
    /// Whether numbers are kept in half precision.
    pub half: bool,
}

/// Room for keys and values.
#[derive(Debug)]
pub struct Cache {
    shape: CacheShape,
    room: usize,
    keys: Buffer,
    values: Buffer,
}

/// Which earlier positions a position sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All.
    All,
    /// The last so many, itself among them.
    Window(u32),
    /// Those of its own chunk of so many.
    Chunk(u32),
}

/// Attention of the rows of one session.
#[derive(Debug, Clone, Copy)]
pub struct Attend<'a> {
    /// Query heads.
    pub heads: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Cap of the scaled scores.
    pub soft_cap: Option<f32>,
    /// Which positions are seen.
    pub reach: Reach,
    /// Position of the first row.
    pub first: usize,
    /// First row among the queries.
    pub row: usize,
    /// Rows.
    pub rows: usize,
    /// (heads): scores that take their share of the weights and bring no value (Xiao et al. 2023).
    pub sinks: Option<&'a Buffer>,
}

impl CacheShape {
    /// Bytes that `positions` positions take.
    #[must_use]
    pub fn bytes(&self, positions: usize) -> u64 {
        let numbers = self.kv_heads * (self.key_dim + self.value_dim);
        (positions as u64) * (numbers as u64) * if self.half { 2 } else { 4 }
    }

    fn words(&self, dim: usize) -> usize {
        if self.half { dim / 2 } else { dim }
    }
}

impl Cache {
    /// Room for `room` positions.
    ///
    /// # Errors
    ///
    /// [`GpuError::OutOfMemory`]; [`GpuError::Size`] where half precision would not fill whole
    /// words, or a device cannot bind so many positions.
    pub fn new(gpu: &Gpu, shape: CacheShape, room: usize) -> Result<Self, GpuError> {
        let CacheShape { kv_heads, key_dim, value_dim, half } = shape;
        if half && !(key_dim.is_multiple_of(2) && value_dim.is_multiple_of(2)) {
            let (what, got) = ("numbers of a head", key_dim.max(value_dim));
            return Err(GpuError::Size { what, got, expected: got + 1 });
        }
        let row = |dim| room.saturating_mul(kv_heads * shape.words(dim));
        let keys = Buffer::new(gpu, "keys", row(key_dim))?;
        let values = Buffer::new(gpu, "values", row(value_dim))?;
        Ok(Self { shape, room, keys, values })
    }

    /// Positions that there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Its sizes.
    #[must_use]
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.keys.bytes() + self.values.bytes()
    }

    /// Copies the first `positions` positions of `from`, which has the same shape.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where there are not so many.
    pub fn copy_from(
        &self,
        commands: &mut Commands,
        from: &Self,
        positions: usize,
    ) -> Result<(), GpuError> {
        let row = |dim| positions * self.shape.kv_heads * self.shape.words(dim);
        commands.copy(&from.keys, 0, &self.keys, 0, row(self.shape.key_dim))?;
        commands.copy(&from.values, 0, &self.values, 0, row(self.shape.value_dim))
    }

    /// Keys, then values, of positions `first..first + count`, as little-endian bytes: (position,
    /// kv head, number), in the precision that they are kept in.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where there are not so many, or what the device has become.
    pub fn read(&self, gpu: &Gpu, first: usize, count: usize) -> Result<Vec<u8>, GpuError> {
        let mut bytes = Vec::new();
        for (buffer, dim) in
            [(&self.keys, self.shape.key_dim), (&self.values, self.shape.value_dim)]
        {
            let row = self.shape.kv_heads * self.shape.words(dim);
            let words = Commands::new(gpu).read_words(buffer, first * row, count * row)?;
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        Ok(bytes)
    }

    /// Writes what [`Self::read`] gave of so many positions, from position `first` on.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where the bytes are not those of `count` positions, or there is no room.
    pub fn write(
        &self,
        gpu: &Gpu,
        first: usize,
        count: usize,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        check("positions", self.room, first.saturating_add(count))?;
        if bytes.len() as u64 != self.shape.bytes(count) {
            let expected = self.shape.bytes(count) as usize;
            return Err(GpuError::Size { what: "bytes of a cache", got: bytes.len(), expected });
        }
        let (words, _) = bytes.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let row = |dim| self.shape.kv_heads * self.shape.words(dim);
        let (key_row, value_row) = (row(self.shape.key_dim), row(self.shape.value_dim));
        let (keys, values) = words.split_at(count * key_row);
        self.keys.write_words(gpu, first * key_row, keys);
        self.values.write_words(gpu, first * value_row, values);
        Ok(())
    }
}

impl Commands {
    /// Puts rows `row..row + rows` of keys (n, `kv_heads` * `key_dim`) and values (n, `kv_heads` *
    /// `value_dim`) into `cache` from `position` on.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where there is no room.
    pub fn append(
        &mut self,
        cache: &Cache,
        position: usize,
        keys: &Buffer,
        values: &Buffer,
        row: usize,
        rows: usize,
    ) -> Result<(), GpuError> {
        check("positions", cache.room, position.saturating_add(rows))?;
        let half = cache.shape.half;
        let kernel = self.gpu().clone().kernel(&format!("append {half}"), |gpu| {
            let values = Values::new(&[("HALF", u32::from(half))]);
            let source = expand(include_str!("shaders/append.wgsl"), &values);
            Kernel::build(gpu, "append", source, "rw")
        })?;
        let CacheShape { kv_heads, key_dim, value_dim, .. } = cache.shape;
        let parts = [(keys, &cache.keys, key_dim), (values, &cache.values, value_dim)];
        for (x, to, dim) in parts {
            let width = kv_heads * dim;
            check("keys or values", x.len(), (row + rows) * width)?;
            let params = [width, rows, row, position].map(|n| n as u32);
            self.dispatch(kernel.clone(), &[x, to], lines(rows * width), &params);
        }
        Ok(())
    }

    /// Attention of queries (n, heads * `key_dim`) over `cache`: (n, heads * `value_dim`) into
    /// `out`. `spare` is memory for the shares of long contexts ([`spare_numbers`]).
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where sizes do not fit.
    pub fn attend(
        &mut self,
        queries: &Buffer,
        cache: &Cache,
        attend: Attend<'_>,
        spare: &Buffer,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        let CacheShape { kv_heads, key_dim, value_dim, .. } = cache.shape;
        let Attend { heads, first, row, rows, sinks, .. } = attend;
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(GpuError::Size { what: "query heads", got: heads, expected: kv_heads });
        }
        check("positions", cache.room, first.saturating_add(rows))?;
        check("queries", queries.len(), (row + rows) * heads * key_dim)?;
        check("mixed values", out.len(), (row + rows) * heads * value_dim)?;
        check("rows of attention", GROUPS_MAX as usize, rows)?;
        let together = together(heads / kv_heads, key_dim);
        let splits = splits(heads / together, rows, first + rows, attend.reach);
        let split = splits > 1;
        if split {
            check("shares", spare.len(), rows * heads * splits * (value_dim + 2))?;
        }
        if let Some(sinks) = sinks {
            check("attention sinks", sinks.len(), heads)?;
        }
        let shape = cache.shape;
        let form = Form { together, split, sinks: sinks.is_some() };
        let name = format!("attend {shape:?} {form:?}");
        let kernel = self.gpu().clone().kernel(&name, |gpu| {
            let bindings = if sinks.is_some() { "rrrwr" } else { "rrrw" };
            Kernel::build(gpu, "attend", source(&shape, form), bindings)
        })?;
        let (window, chunk) = match attend.reach {
            Reach::All => (0, 0),
            Reach::Window(window) => (window, 0),
            Reach::Chunk(chunk) => (0, chunk),
        };
        let params = [
            first as u32,
            row as u32,
            heads as u32,
            kv_heads as u32,
            attend.scale.to_bits(),
            attend.soft_cap.unwrap_or(0.0).to_bits(),
            window,
            chunk,
            splits as u32,
        ];
        let groups = [(heads / together) as u32, rows as u32, splits as u32];
        let target = if split { spare } else { out };
        let mut buffers = vec![queries, &cache.keys, &cache.values, target];
        buffers.extend(sinks);
        self.dispatch(kernel, &buffers, groups, &params);
        if split {
            let kernel = self.gpu().clone().kernel("merge", |gpu| {
                let source = include_str!("shaders/merge.wgsl").to_owned();
                Kernel::build(gpu, "merge", source, "rw")
            })?;
            let params = [rows * heads, row * heads, splits, value_dim].map(|n| n as u32);
            self.dispatch(kernel, &[spare, out], spread((rows * heads) as u32, 1), &params);
        }
        Ok(())
    }
}

/// Numbers of memory that [`Commands::attend`] may need for shares, however many rows there are.
#[must_use]
pub fn spare_numbers(value_dim: usize) -> usize {
    BUSY_GROUPS * TOGETHER_MAX * (value_dim + 2)
}

/// Query heads that a workgroup takes together, of `group` that share a key-value head.
fn together(group: usize, key_dim: usize) -> usize {
    let fits = |count: usize| group.is_multiple_of(count) && count * key_dim <= QUERY_NUMBERS_MAX;
    (1..=TOGETHER_MAX).rev().find(|count| fits(*count)).unwrap_or(1)
}

/// Shares of the positions that the last row sees.
fn splits(groups: usize, rows: usize, end: usize, reach: Reach) -> usize {
    let seen = match reach {
        Reach::All => end,
        Reach::Window(size) | Reach::Chunk(size) => end.min(size as usize),
    };
    let wanted = BUSY_GROUPS / (groups * rows).max(1);
    wanted.min(seen.div_ceil(TILE) / SHARE_TILES).clamp(1, SPLITS_MAX)
}

/// Which of the kernels of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    /// Query heads of a workgroup.
    pub(crate) together: usize,
    /// Whether the positions are shared out.
    pub(crate) split: bool,
    /// Whether there are sinks.
    pub(crate) sinks: bool,
}

/// The text of the kernel.
pub(crate) fn source(shape: &CacheShape, form: Form) -> String {
    let Form { together, split, sinks } = form;
    let CacheShape { key_dim, value_dim, half, .. } = *shape;
    let value_words = shape.words(value_dim);
    let values = Values::new(&[
        ("HALF", u32::from(half)),
        ("SPLIT", u32::from(split)),
        ("SINKS", u32::from(sinks)),
        ("TOGETHER", together as u32),
        ("KEY_DIM", key_dim as u32),
        ("KEY_WORDS", shape.words(key_dim) as u32),
        ("VALUE_DIM", value_dim as u32),
        ("VALUE_WORDS", value_words as u32),
        ("SLOTS", value_words.div_ceil(TILE) as u32),
        ("QUERY_NUMBERS", (together * key_dim) as u32),
        ("SCORES", (together * TILE) as u32),
        ("TOPS", (together * 8) as u32),
    ]);
    let values = values
        .with("KEY_TYPE", if half { "u32" } else { "f32" })
        .with("VALUE_TYPE", if half { "u32" } else { "f32" })
        .with("VALUE_ZERO", if half { "vec2<f32>(0.0)" } else { "0.0" });
    expand(include_str!("shaders/attend.wgsl"), &values)
}

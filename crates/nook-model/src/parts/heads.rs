//! Heads that each remember in a matrix of their own, shared among the threads.

use std::sync::{Mutex, PoisonError};

use super::{Span, Step};

/// The heads of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) count: usize,
    /// Numbers of the state of one.
    pub(super) size: usize,
    /// Numbers that one reads at each position.
    pub(super) dim: usize,
    /// Operations with each number of a state at each position.
    pub(super) operations: usize,
}

/// One head of one span: its state, and where what it reads goes.
pub(super) struct Head<'a> {
    pub(super) number: usize,
    /// The state before; `None` where `state` holds it already.
    pub(super) before: Option<&'a [f32]>,
    pub(super) state: &'a mut [f32],
    /// (rows, dim)
    pub(super) read: &'a mut [f32],
}

impl Heads {
    /// Takes the rows of `span` through the states of all heads (before, after) by `walk`, into
    /// `read` (n, heads, dim), by way of `apart` (heads, rows, dim).
    pub(super) fn share(
        &self,
        (step, span): (&Step<'_>, &Span),
        (before, states): (Option<&[f32]>, &mut [f32]),
        (apart, read): (&mut [f32], &mut [f32]),
        walk: impl Fn(&mut Head<'_>) + Sync,
    ) {
        let Self { count, size, dim, operations } = *self;
        let rows = span.rows.len();
        let states = states.chunks_exact_mut(size).zip(apart.chunks_exact_mut(rows * dim));
        let heads: Vec<Mutex<Head<'_>>> = states
            .enumerate()
            .map(|(number, (state, read))| {
                let before = before.map(|all| &all[number * size..(number + 1) * size]);
                Mutex::new(Head { number, before, state, read })
            })
            .collect();
        let work = rows.saturating_mul(operations * count * size);
        step.compute.share(heads.len(), work, &|index| {
            // No other piece of work has this head.
            walk(&mut heads[index].lock().unwrap_or_else(PoisonError::into_inner));
        });
        for (number, head) in apart.chunks_exact(rows * dim).take(count).enumerate() {
            for (row, head) in span.rows.clone().zip(head.chunks_exact(dim)) {
                let at = (row * count + number) * dim;
                read[at..at + dim].copy_from_slice(head);
            }
        }
    }
}

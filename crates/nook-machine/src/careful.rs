//! One part of the machine, looked at with care: a foreign library that panics costs one look.
//!
//! `lib` asks each part through [`Careful::look`]. A part that panicked is thrown away, made anew,
//! and left alone for some looks; meanwhile it says nothing, which holds nobody back.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Looks for which a part that panicked is left alone: about a minute, as the node looks every two
/// seconds. Sooner, a library that always panics would fill the log.
const LOOKS_REST: u32 = 30;

/// A part and how long it still rests.
#[derive(Debug, Default)]
pub(crate) struct Careful<T> {
    part: T,
    rest: u32,
}

impl<T: Default> Careful<T> {
    /// What the part says; `None` also where it panicked, now or a short while ago.
    pub(crate) fn look<R>(
        &mut self,
        name: &'static str,
        look: impl FnOnce(&mut T) -> Option<R>,
    ) -> Option<R> {
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let part = &mut self.part;
        // What a panic left half done in the part is thrown away below.
        let seen = catch_unwind(AssertUnwindSafe(|| look(part)));
        seen.unwrap_or_else(|_| {
            tracing::error!(part = name, "a look at the machine panicked");
            *self = Self { part: T::default(), rest: LOOKS_REST };
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_panics_is_made_anew_and_looked_at_again() {
        let mut part = Careful::<Vec<u32>>::default();
        let count = |part: &mut Vec<u32>| {
            part.push(1);
            Some(part.len())
        };
        assert_eq!(part.look("part", count), Some(1));
        assert_eq!(part.look("part", count), Some(2));
        assert_eq!(part.look("part", |_| -> Option<usize> { panic!("on purpose") }), None);
        for rest in 0..LOOKS_REST {
            assert_eq!(part.look("part", count), None, "look {rest} after the panic");
        }
        assert_eq!(part.look("part", count), Some(1), "nothing of the one that panicked is left");
    }
}

//! A wrapper for what must never reach a log: prompts, replies, activation bytes, codes, keys.

/// Holds a value whose content no `Debug` output shows (invariant I-3).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sensitive<T>(pub T);

impl<T> std::fmt::Debug for Sensitive<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<sensitive>")
    }
}

impl<T> std::ops::Deref for Sensitive<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Sensitive<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_nothing() {
        assert_eq!(format!("{:?}", Sensitive("canary".to_owned())), "<sensitive>");
    }
}

//! The few words that the app understands on its command line.

/// How the app was asked to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Arguments {
    /// Start in the tray, without a window: what an autostart entry passes.
    pub(crate) hidden: bool,
    /// Draw without the graphics card, for machines on which the window stays blank.
    pub(crate) safe_graphics: bool,
}

impl Arguments {
    /// Reads the words after the program's name. Unknown ones are named in the log and left alone:
    /// desktops add their own.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Self {
        let mut read = Self::default();
        for word in words {
            match word.as_str() {
                "--hidden" => read.hidden = true,
                "--safe-graphics" => read.safe_graphics = true,
                _ => tracing::warn!(%word, "not understood"),
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], hidden: bool, safe_graphics: bool) {
        let read = Arguments::read(words.iter().map(|&word| word.to_owned()));
        assert_eq!(read, Arguments { hidden, safe_graphics });
    }

    #[test]
    fn words_are_understood_in_any_order_and_strange_ones_left_alone() {
        check(&[], false, false);
        check(&["--hidden"], true, false);
        check(&["--gapplication-service", "--safe-graphics", "--hidden"], true, true);
    }
}

//! How the files of a model in several are named: `name-00001-of-00003.gguf` and so on, from 1.
//! Source: llama.cpp, `llama_split_path`. Pure.

/// Most pieces of one model; the largest known come in some 20.
pub const PIECES_MAX: u32 = 64;

const ENDING: &str = ".gguf";
const DIGITS: usize = 5;

/// The name of one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceName {
    before: String,
    ending: String,
    number: u32,
    count: u32,
}

impl PieceName {
    /// What `name` says, if it is that of a piece of a model in more than one.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        let at = name.len().checked_sub(ENDING.len())?;
        let (stem, ending) = name.split_at_checked(at)?;
        if !ending.eq_ignore_ascii_case(ENDING) {
            return None;
        }
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (before, number) = rest.rsplit_once('-')?;
        let (number, count) = (digits(number)?, digits(count)?);
        let is_one = count > 1 && (1..=count).contains(&number);
        let (before, ending) = (before.to_owned(), ending.to_owned());
        is_one.then_some(Self { before, ending, number, count })
    }

    /// How many pieces there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The name of the piece with this number, from 1.
    #[must_use]
    pub fn of(&self, number: u32) -> String {
        let Self { before, ending, count, .. } = self;
        format!("{before}-{number:05}-of-{count:05}{ending}")
    }

    /// What the file was called before it was cut.
    #[must_use]
    pub fn whole(&self) -> String {
        format!("{}{}", self.before, self.ending)
    }
}

fn digits(text: &str) -> Option<u32> {
    let plain = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pieces_lead_to_each_other() {
        let name = PieceName::read("gpt-oss-120b-mxfp4-00002-of-00003.GGUF").unwrap();
        assert_eq!(name.count(), 3);
        assert_eq!(name.of(1), "gpt-oss-120b-mxfp4-00001-of-00003.GGUF");
        assert_eq!(name.of(3), "gpt-oss-120b-mxfp4-00003-of-00003.GGUF");
        assert_eq!(name.whole(), "gpt-oss-120b-mxfp4.GGUF");
        for other in [
            "m.gguf",
            "m-00001-of-00001.gguf",
            "m-00000-of-00003.gguf",
            "m-00004-of-00003.gguf",
            "m-1-of-3.gguf",
            "m-00001-of-00003",
            "m-00001-of-00003.bin",
            "-of-.gguf",
            "ü.gguf",
            "",
        ] {
            assert_eq!(PieceName::read(other), None, "{other}");
        }
    }
}

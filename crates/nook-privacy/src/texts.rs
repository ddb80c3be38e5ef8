//! The public texts: one that is attacked, one that a probe learns from.
//!
//! Both ship with the program. The one for the probe is a part of what Ember was trained with, made
//! by its grammar with other dice; the attacked one was written for this and is in no training text
//! of ours.

use nook_model::ModelFile;
use nook_text::{EncodeOptions, Tokenizer};

use crate::PrivacyError;

/// What is attacked.
const HELD_OUT: &str = include_str!("../text/held-out.txt");

/// What the probe learns from.
const LEARNT: &str = include_str!("../text/learnt.txt");

/// Token ids of both texts in one vocabulary.
pub(crate) struct Texts {
    /// What is attacked; begins with BOS where the vocabulary wants one.
    pub(crate) held_out: Vec<u32>,
    /// What the probe learns from.
    pub(crate) learnt: Vec<u32>,
    /// Positions at the beginning of `held_out` that are no text.
    pub(crate) special: usize,
    /// Where a reply ends.
    pub(crate) eos: Option<u32>,
}

impl Texts {
    /// The texts in the vocabulary of `file`.
    pub(crate) fn of(file: &ModelFile) -> Result<Self, PrivacyError> {
        let tokenizer = Tokenizer::new(&file.vocabulary()?).map_err(PrivacyError::Tokenizer)?;
        let options = |add_special| EncodeOptions { add_special, parse_special: false };
        let mut held_out = tokenizer.encode(HELD_OUT, options(true))?;
        let learnt = tokenizer.encode(LEARNT, options(false))?;
        if tokenizer.eos().is_some() && held_out.last() == tokenizer.eos().as_ref() {
            held_out.pop();
        }
        let begins = tokenizer.bos().is_some() && held_out.first() == tokenizer.bos().as_ref();
        let (special, eos) = (usize::from(begins), tokenizer.eos());
        Ok(Self { held_out, learnt, special, eos })
    }
}

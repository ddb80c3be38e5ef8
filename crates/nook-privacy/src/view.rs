//! What was measured, for front ends and files.

use nook_base::{ActivationDtype, PrivacyFigures};
use serde::{Deserialize, Serialize};

/// The version of [`PrivacyView`]; it rises when a field changes its meaning.
pub const VERSION: u32 = 1;

/// What was measured of one model. Shares are from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrivacyView {
    /// [`VERSION`].
    pub version: u32,
    /// Which Inglenook measured.
    pub inglenook: String,
    /// When, in seconds since 1970.
    pub measured_at: u64,
    /// What.
    pub model: MeasuredModel,
    /// Tokens of the public text that were attacked.
    pub tokens: u32,
    /// Tokens of another public text from which the probe learnt.
    pub learnt_tokens: u32,
    /// Tokens among which nearest embedding, probe and replay had to find the right one.
    pub candidates: u32,
    /// What was read at each place, in the order of the layers.
    pub cuts: Vec<CutView>,
    /// The most that was read where helpers begin behind the first layer or later.
    pub highest: Highest,
    /// [`Self::highest`] in a sentence for people.
    pub meaning: String,
    /// Whether the attacks work, and find nothing where there is nothing.
    pub controls: Controls,
    /// What noise does, if that was asked for.
    pub noise: Option<NoiseView>,
}

/// The model that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredModel {
    /// Digest of the file that was measured, hexadecimal.
    pub digest: String,
    /// Its name in its file.
    pub name: String,
    /// Its architecture, as GGUF calls it.
    pub architecture: String,
    /// How its weights are quantised.
    pub quantisation: String,
    /// Layers.
    pub layers: u32,
    /// Numbers that travel for each position.
    pub row: u32,
    /// Tokens that it knows.
    pub vocabulary: u32,
}

/// One place where activations leave a computer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CutView {
    /// Layers that were computed before it.
    pub layers_before: u32,
    /// What was read in each format.
    pub formats: Vec<FormatView>,
    /// Formats that the numbers are too large for; there, f32 travels.
    pub too_large_for: Vec<ActivationDtype>,
}

/// What was read from activations in one format of the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormatView {
    /// The format.
    pub format: ActivationDtype,
    /// Share of tokens that each attack read.
    #[serde(flatten)]
    pub recovered: Recovered,
    /// Share of positions at which the logit lens also says the token that the model would write
    /// next.
    pub next: f64,
}

/// Share of tokens that each attack read.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Recovered {
    /// [`Attack::Nearest`].
    pub nearest: f64,
    /// [`Attack::Probe`].
    pub probe: f64,
    /// [`Attack::Lens`].
    pub lens: f64,
    /// [`Attack::Replay`].
    pub replay: f64,
}

/// A way of reading tokens from activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attack {
    /// The token whose embedding points most nearly the same way.
    Nearest,
    /// A linear map to embeddings, learnt on another text.
    Probe,
    /// The model's own head, applied early.
    Lens,
    /// Each token is computed with the model file and compared.
    Replay,
}

/// The most that was read, and how.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Highest {
    /// Share of tokens.
    pub recovered: f64,
    /// By which attack.
    pub attack: Attack,
    /// How many layers had been computed before.
    pub layers_before: u32,
    /// In which format.
    pub format: ActivationDtype,
}

/// Whether the attacks themselves can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Controls {
    /// The embedding itself, from which nearest embedding must read (nearly) all; of replay the place
    /// where it read least, which must be as much.
    pub positive: Control,
    /// Random numbers in place of activations, from which no attack may read more than chance; the
    /// mean of all places, none of which may be far above it.
    pub negative: Control,
}

/// One control.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// What was read.
    pub recovered: Recovered,
    /// The least or the most that may be read.
    pub limit: f64,
    /// Whether it was as it must be.
    pub passed: bool,
}

/// What noise on the activations does, at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseView {
    /// Layers that were computed before the noise was added.
    pub layers_before: u32,
    /// The format that the noisy activations were written in.
    pub format: ActivationDtype,
    /// Tokens of text behind the perplexities.
    pub text_tokens: u32,
    /// Tokens of the reply that is compared.
    pub reply_tokens: u32,
    /// Each level, rising; the first is none.
    pub levels: Vec<NoiseLevel>,
    /// Whether a level kept most tokens from every attack and left most of the reply as it was.
    pub helps: bool,
}

/// One level of noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseLevel {
    /// Deviation of the noise, as a part of the root mean square of each activation.
    pub noise: f64,
    /// Share of tokens that each attack read.
    #[serde(flatten)]
    pub recovered: Recovered,
    /// Share of a reply's tokens that the model chooses again.
    pub reply_kept: f64,
    /// Perplexity on the attacked text.
    pub perplexity: f64,
}

impl PrivacyView {
    /// The figures of the place that [`Self::highest`] names: what is kept and shown again.
    #[must_use]
    pub fn figures(&self) -> PrivacyFigures {
        let Highest { layers_before, format, .. } = self.highest;
        let cut = self.cuts.iter().find(|cut| cut.layers_before == layers_before);
        let at = cut.and_then(|cut| cut.formats.iter().find(|it| it.format == format));
        let (read, next) = at.map_or_else(Default::default, |it| (it.recovered, it.next));
        PrivacyFigures {
            measured_at: self.measured_at,
            tokens: self.tokens,
            candidates: self.candidates,
            layers_before,
            format,
            nearest: read.nearest,
            probe: read.probe,
            lens: read.lens,
            replay: read.replay,
            next,
        }
    }
}

impl Attack {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest embedding",
            Self::Probe => "ridge probe",
            Self::Lens => "logit lens",
            Self::Replay => "replay matching",
        }
    }
}

impl Recovered {
    /// The attack that read most, and how much.
    #[must_use]
    pub fn highest(&self) -> (Attack, f64) {
        // The plainest first: of equals it is the one that costs least.
        let others =
            [(Attack::Probe, self.probe), (Attack::Lens, self.lens), (Attack::Replay, self.replay)];
        others
            .into_iter()
            .fold((Attack::Nearest, self.nearest), |best, it| if it.1 > best.1 { it } else { best })
    }

    /// The mean of `all`; nothing where there are none.
    pub(crate) fn mean(all: &[Self]) -> Self {
        let of =
            |share: fn(&Self) -> f64| all.iter().map(share).sum::<f64>() / all.len().max(1) as f64;
        Self {
            nearest: of(|it| it.nearest),
            probe: of(|it| it.probe),
            lens: of(|it| it.lens),
            replay: of(|it| it.replay),
        }
    }
}

impl Controls {
    /// Whether both were as they must be.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.positive.passed && self.negative.passed
    }
}

impl Highest {
    /// The most of `cuts` behind the first layer; `None` where there is none.
    pub(crate) fn of(cuts: &[CutView]) -> Option<Self> {
        let mut highest: Option<Self> = None;
        for cut in cuts.iter().filter(|cut| cut.layers_before > 0) {
            for of in &cut.formats {
                let (attack, recovered) = of.recovered.highest();
                if highest.is_none_or(|it| recovered > it.recovered) {
                    let (layers_before, format) = (cut.layers_before, of.format);
                    highest = Some(Self { recovered, attack, layers_before, format });
                }
            }
        }
        highest
    }

    /// It in a sentence for people. Promises nothing: other attacks may read more.
    pub(crate) fn meaning(&self, candidates: usize, vocabulary: u32) -> String {
        // Rounded down: it says "at least". Shares are counts of few tokens, so nothing is lost.
        let of_hundred = (self.recovered * 100.0 + 1e-9).floor();
        let among = match candidates < vocabulary as usize {
            true => format!(", among {candidates} of the {vocabulary} that it knows"),
            false => String::new(),
        };
        format!(
            "Whoever owns a helping computer and wants to can read at least {of_hundred} of 100 pieces of \
             words that it computes with, by a known method ({}){among}. Other methods may read more.",
            self.attack.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(layers_before: u32, recovered: Recovered) -> CutView {
        let of = FormatView { format: ActivationDtype::F16, recovered, next: 0.0 };
        CutView { layers_before, formats: vec![of], too_large_for: Vec::new() }
    }

    /// A view of these places.
    fn view(cuts: Vec<CutView>) -> PrivacyView {
        let recovered = Recovered { nearest: 0.25, probe: 0.5, lens: 0.0, replay: 1.0 };
        let control = Control { recovered, limit: 0.99, passed: true };
        let highest = Highest::of(&cuts).unwrap();
        PrivacyView {
            version: VERSION,
            inglenook: "0".to_owned(),
            measured_at: 1,
            model: MeasuredModel {
                digest: "ab".repeat(32),
                name: "a".to_owned(),
                architecture: "llama".to_owned(),
                quantisation: "Q8_0".to_owned(),
                layers: 2,
                row: 3,
                vocabulary: 4,
            },
            tokens: 5,
            learnt_tokens: 6,
            candidates: 7,
            meaning: highest.meaning(4, 4),
            highest,
            cuts,
            controls: Controls { positive: control, negative: control },
            noise: None,
        }
    }

    #[test]
    fn the_highest_of_all_attacks_and_places_is_told_but_for_the_embedding() {
        let replay = Recovered { nearest: 0.2, probe: 0.5, lens: 0.0, replay: 0.997 };
        let cuts = [
            cut(0, Recovered { nearest: 1.0, ..Recovered::default() }),
            cut(1, Recovered { probe: 0.6, ..Recovered::default() }),
            cut(2, replay),
        ];
        let highest = Highest::of(&cuts).unwrap();
        assert_eq!((highest.attack, highest.layers_before), (Attack::Replay, 2));
        let meaning = highest.meaning(96, 512);
        assert!(meaning.contains("among 96 of the 512"), "{meaning}");
        assert!(!highest.meaning(512, 512).contains("among"));
        assert!(meaning.contains("at least 99 of 100"), "{meaning}");
        assert!(meaning.contains("replay matching"), "{meaning}");
        assert_eq!(Highest::of(&cuts[..1]), None);
    }

    #[test]
    fn a_view_is_read_back_as_it_was_written() {
        let view =
            view(vec![cut(1, Recovered { nearest: 0.25, probe: 0.5, lens: 0.0, replay: 1.0 })]);
        let written = serde_json::to_value(&view).unwrap();
        assert_eq!(written["cuts"][0]["formats"][0]["replay"], 1.0);
        assert_eq!(serde_json::from_value::<PrivacyView>(written).unwrap(), view);
    }

    #[test]
    fn the_figures_that_are_kept_are_those_of_the_place_that_the_sentence_is_of() {
        let low = Recovered { nearest: 0.25, probe: 0.5, lens: 0.0, replay: 0.5 };
        let high = Recovered { replay: 0.75, ..low };
        let all = Recovered { nearest: 1.0, ..low };
        let mut view = view(vec![cut(0, all), cut(1, low), cut(2, high)]);
        view.cuts[2].formats[0].next = 0.125;
        let figures = view.figures();
        assert_eq!((figures.layers_before, figures.format), (2, ActivationDtype::F16));
        assert_eq!((figures.replay, figures.most(), figures.next), (0.75, 0.75, 0.125));
        assert_eq!((figures.nearest, figures.probe, figures.lens), (0.25, 0.5, 0.0));
        assert_eq!((figures.measured_at, figures.tokens, figures.candidates), (1, 5, 7));
        assert!(figures.is_sound());
    }
}

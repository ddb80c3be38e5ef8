//! What one declared setting is: its key, what it takes, when and where it acts.
//!
//! Everything that speaks about settings (errors, the template, the document, the command line, the
//! window's fields) asks these values, so that no range or unit is written down a second time.

use std::fmt;

use super::value::SettingValue;

/// A setting as it is declared. `SETTINGS` holds all of them.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The key, dotted, as it stands in `settings.toml`.
    pub key: &'static str,
    pub(super) text: &'static str,
    /// Which values it takes.
    pub takes: Takes,
    /// Whether it may be absent; then something else decides, which its text names.
    pub is_optional: bool,
    pub(super) spec: Spec,
}

/// What a declaration says beside key, type, default and text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    acts: Acts,
    side: Side,
    pub(super) takes: Option<Takes>,
    unit: Option<&'static str>,
    example: Option<&'static str>,
    in_window: bool,
}

/// When a changed value acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acts {
    /// While the program runs.
    AtOnce,
    /// From the next start on.
    NextStart,
}

/// The part of the product on which a setting acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This computer, whatever it does.
    Computer,
    /// The OpenAI-compatible port.
    Port,
    /// Links to other computers.
    Links,
    /// Model files.
    Models,
    /// Replies that are asked for on this computer.
    Asking,
    /// What this computer computes for others.
    Lending,
    /// The window and the tray.
    Window,
}

/// The values that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Takes {
    /// On or off.
    Switch,
    /// A whole number.
    Whole {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
        /// 0 is taken too, though it lies outside.
        or_zero: bool,
    },
    /// A number.
    Decimal {
        /// The least.
        min: f64,
        /// The most.
        max: f64,
        /// By how much a field in the window goes up or down.
        step: f64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A text; this says of what form.
    Text(&'static str),
    /// A list of texts; this says of what form.
    Texts(&'static str),
}

/// A setting that acts while the program runs.
pub(super) const fn at_once(side: Side) -> Spec {
    Spec { acts: Acts::AtOnce, side, takes: None, unit: None, example: None, in_window: false }
}

/// A setting that acts from the next start on.
pub(super) const fn next_start(side: Side) -> Spec {
    Spec { acts: Acts::NextStart, ..at_once(side) }
}

impl Spec {
    /// Whole numbers from `min` to `max`, both included.
    pub(super) const fn whole(mut self, min: i64, max: i64) -> Self {
        self.takes = Some(Takes::Whole { min, max, or_zero: false });
        self
    }

    /// The same, and 0.
    pub(super) const fn whole_or_zero(mut self, min: i64, max: i64) -> Self {
        self.takes = Some(Takes::Whole { min, max, or_zero: true });
        self
    }

    /// Numbers from `min` to `max`, both included; fields in the window go by `step`.
    pub(super) const fn decimal(mut self, min: f64, max: f64, step: f64) -> Self {
        self.takes = Some(Takes::Decimal { min, max, step });
        self
    }

    /// What the number counts.
    pub(super) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    /// A page of the window offers it; the window's pages can change no other one.
    pub(super) const fn in_window(mut self) -> Self {
        self.in_window = true;
        self
    }

    /// A value as TOML writes it, for settings whose default is absence.
    pub(super) const fn example(mut self, example: &'static str) -> Self {
        self.example = Some(example);
        self
    }
}

impl Setting {
    /// What it does, in plain sentences, one paragraph.
    #[must_use]
    pub fn text(&self) -> String {
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// When a changed value acts.
    #[must_use]
    pub fn acts(&self) -> Acts {
        self.spec.acts
    }

    /// On what it acts.
    #[must_use]
    pub fn side(&self) -> Side {
        self.spec.side
    }

    /// What its number counts.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        self.spec.unit
    }

    /// A value as TOML writes it, where the declaration names one.
    #[must_use]
    pub fn example(&self) -> Option<&'static str> {
        self.spec.example
    }

    /// Whether a page of the window offers it.
    #[must_use]
    pub fn is_in_window(&self) -> bool {
        self.spec.in_window
    }

    /// The section of the file that it stands in.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.key.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// Its name within its section.
    #[must_use]
    pub fn leaf(&self) -> &'static str {
        self.key.rsplit_once('.').map_or(self.key, |(_, leaf)| leaf)
    }

    /// Whether `value` says that there is none.
    pub(super) fn means_absent(&self, value: &SettingValue) -> bool {
        match value {
            SettingValue::Unset => true,
            SettingValue::Text(text) => self.is_optional && text.trim().is_empty(),
            SettingValue::Number(0) => self.is_optional && self.allows(0),
            _ => false,
        }
    }

    /// Whether `number` lies in the declared range.
    pub(super) fn allows(&self, number: i64) -> bool {
        match self.takes {
            Takes::Whole { min, max, or_zero } => {
                (min..=max).contains(&number) || (or_zero && number == 0)
            }
            _ => false,
        }
    }
}

/// Continues "it takes …".
impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("`true` or `false`"),
            Self::Whole { min, max, or_zero: true } => {
                write!(f, "0 or a whole number from {min} to {max}")
            }
            Self::Whole { min, max, .. } => write!(f, "a whole number from {min} to {max}"),
            Self::Decimal { min, max, .. } => write!(f, "a number from {min} to {max}"),
            Self::OneOf(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                match words.split_last() {
                    Some((last, rest)) if !rest.is_empty() => {
                        write!(f, "{} or {last}", rest.join(", "))
                    }
                    _ => f.write_str(&words.join(", ")),
                }
            }
            Self::Text(form) | Self::Texts(form) => f.write_str(form),
        }
    }
}

impl fmt::Display for Acts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtOnce => "at once",
            Self::NextStart => "from the next start",
        })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Computer => "this computer",
            Self::Port => "the port",
            Self::Links => "links to other computers",
            Self::Models => "model files",
            Self::Asking => "replies asked for here",
            Self::Lending => "work for others",
            Self::Window => "the window",
        })
    }
}

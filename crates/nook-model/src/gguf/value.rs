//! Metadata values. Arrays are held in their own type, so one byte on disk stays one byte.

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// Any floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// 32-bit floating-point numbers.
    Floats(Vec<f32>),
    /// 32-bit signed integers.
    Signeds(Vec<i32>),
    /// 32-bit unsigned integers.
    Unsigneds(Vec<u32>),
    /// Truth values.
    Bools(Vec<bool>),
    /// An array of a type that no model here uses: only its length and element type are kept.
    Unused {
        /// Type number of the elements.
        type_id: u32,
        /// Elements.
        length: u64,
    },
}

impl Value {
    /// The text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, if it fits.
    #[must_use]
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Self::Unsigned(number) => u32::try_from(*number).ok(),
            Self::Signed(number) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The number, as single precision.
    #[must_use]
    pub fn as_f32(&self) -> Option<f32> {
        match self {
            Self::Float(number) => Some(*number as f32),
            _ => None,
        }
    }

    /// The truth value.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Whether it is a list of values.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Texts(_)
                | Self::Floats(_)
                | Self::Signeds(_)
                | Self::Unsigneds(_)
                | Self::Bools(_)
                | Self::Unused { .. }
        )
    }

    /// A few words for an error message; never the content of a text longer than a name.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Unsigned(number) => number.to_string(),
            Self::Signed(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Bool(truth) => truth.to_string(),
            Self::Text(text) if text.len() <= 40 => format!("the text {text:?}"),
            Self::Text(text) => format!("a text of {} bytes", text.len()),
            Self::Texts(texts) => format!("{} texts", texts.len()),
            Self::Floats(numbers) => format!("{} fractions", numbers.len()),
            Self::Signeds(numbers) => format!("{} signed numbers", numbers.len()),
            Self::Unsigneds(numbers) => format!("{} numbers", numbers.len()),
            Self::Bools(truths) => format!("{} truth values", truths.len()),
            Self::Unused { type_id, length } => format!("{length} values of type {type_id}"),
        }
    }
}

//! The value of a setting before its type is known: as a door sends it, and as TOML writes it.

use toml_edit::{Item, Value};

/// A new value for one key.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    /// On or off.
    Switch(bool),
    /// A whole number.
    Number(i64),
    /// A number.
    Decimal(f64),
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// Back to the default.
    Unset,
}

impl From<bool> for SettingValue {
    fn from(value: bool) -> Self {
        Self::Switch(value)
    }
}

impl From<i64> for SettingValue {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<f64> for SettingValue {
    fn from(value: f64) -> Self {
        Self::Decimal(value)
    }
}

impl From<&str> for SettingValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl SettingValue {
    /// What `item` holds; `None` where no setting takes such a thing.
    pub(super) fn of_toml(item: &Item) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match item.as_value()? {
            Value::Boolean(on) => Some(Self::Switch(*on.value())),
            Value::Integer(number) => Some(Self::Number(*number.value())),
            Value::Float(number) => Some(Self::Decimal(*number.value())),
            Value::String(text) => Some(Self::Text(text.value().clone())),
            Value::Array(list) => list.iter().map(text).collect::<Option<_>>().map(Self::Texts),
            Value::Datetime(_) | Value::InlineTable(_) => None,
        }
    }

    /// As TOML; `None` for [`SettingValue::Unset`].
    pub(super) fn as_toml(&self) -> Option<Value> {
        match self {
            Self::Switch(on) => Some((*on).into()),
            Self::Number(number) => Some((*number).into()),
            Self::Decimal(number) => Some((*number).into()),
            Self::Text(text) => Some(text.as_str().into()),
            Self::Texts(texts) => Some(Value::Array(texts.iter().collect())),
            Self::Unset => None,
        }
    }
}

/// As it stands in `settings.toml`; nothing for [`SettingValue::Unset`].
impl std::fmt::Display for SettingValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.as_toml() {
            Some(value) => write!(f, "{}", value.to_string().trim()),
            None => Ok(()),
        }
    }
}

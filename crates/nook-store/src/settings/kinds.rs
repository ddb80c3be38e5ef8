//! The types of settings: how each is read from a value and written back.
//!
//! A type says which values it takes ([`SettingType::TAKES`]); a declaration may narrow that to a
//! range. Reading answers `None` for everything else, and the caller words the refusal.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nook_base::{ActivationDtype, Backend, FormFactor, LayerRange, ThinkingChoice};
use nook_trust::{DeviceName, TrustLevel};

use super::host_names::HostNames;
use super::model_names::{ModelNames, NAMES_MAX};
use super::pausing::QuietHours;
use super::setting::{Setting, Takes};
use super::value::SettingValue;
use super::{ActivationChoice, AskKeys, Language, Megabytes, NewVersions, Pooling, SplitChoice};
use crate::identity::KeyringChoice;

/// More web origins are a mistake; the list is refused.
const ORIGINS_MAX: usize = 32;

/// A type that a setting can have.
pub(super) trait SettingType: Sized {
    /// Which values it takes, where the declaration does not say it more narrowly.
    const TAKES: Takes;
    /// Whether absence is a value of it.
    const IS_OPTIONAL: bool = false;

    /// The value, if `setting` takes it.
    fn read(value: &SettingValue, setting: &Setting) -> Option<Self>;

    /// The value as a door sends it; [`SettingValue::Unset`] for absence.
    fn write(&self) -> SettingValue;
}

/// An empty text, and 0 where the range includes it, are absence.
impl<T: SettingType> SettingType for Option<T> {
    const TAKES: Takes = T::TAKES;
    const IS_OPTIONAL: bool = true;

    fn read(value: &SettingValue, setting: &Setting) -> Option<Self> {
        if setting.means_absent(value) {
            return Some(None);
        }
        T::read(value, setting).map(Some)
    }

    fn write(&self) -> SettingValue {
        self.as_ref().map_or(SettingValue::Unset, T::write)
    }
}

impl SettingType for bool {
    const TAKES: Takes = Takes::Switch;

    fn read(value: &SettingValue, _: &Setting) -> Option<Self> {
        match value {
            SettingValue::Switch(on) => Some(*on),
            _ => None,
        }
    }

    fn write(&self) -> SettingValue {
        SettingValue::Switch(*self)
    }
}

/// The number of `value`, if it lies in the range of `setting`.
fn whole(value: &SettingValue, setting: &Setting) -> Option<i64> {
    match value {
        SettingValue::Number(number) => Some(*number).filter(|number| setting.allows(*number)),
        _ => None,
    }
}

fn number_of(number: u64) -> SettingValue {
    SettingValue::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl SettingType for $type {
            const TAKES: Takes = Takes::Whole { min: 0, max: i64::MAX, or_zero: false };

            fn read(value: &SettingValue, setting: &Setting) -> Option<Self> {
                whole(value, setting)?.try_into().ok()
            }

            fn write(&self) -> SettingValue {
                number_of(u64::from(*self))
            }
        }
    )*};
}

whole_numbers!(u16, u32, u64);

/// In whole seconds.
impl SettingType for Duration {
    const TAKES: Takes = <u64 as SettingType>::TAKES;

    fn read(value: &SettingValue, setting: &Setting) -> Option<Self> {
        u64::read(value, setting).map(Self::from_secs)
    }

    fn write(&self) -> SettingValue {
        number_of(self.as_secs())
    }
}

impl SettingType for Megabytes {
    const TAKES: Takes = <u64 as SettingType>::TAKES;

    fn read(value: &SettingValue, setting: &Setting) -> Option<Self> {
        u64::read(value, setting).map(Self)
    }

    fn write(&self) -> SettingValue {
        number_of(self.0)
    }
}

/// A whole number is taken too.
impl SettingType for f32 {
    const TAKES: Takes = Takes::Decimal { min: f64::MIN, max: f64::MAX, step: 1.0 };

    fn read(value: &SettingValue, setting: &Setting) -> Option<Self> {
        let number = match value {
            SettingValue::Decimal(number) => *number,
            SettingValue::Number(number) => *number as f64,
            _ => return None,
        };
        match setting.takes {
            Takes::Decimal { min, max, .. } if (min..=max).contains(&number) => {
                Some(number as Self)
            }
            _ => None,
        }
    }

    fn write(&self) -> SettingValue {
        // Through its decimal form: 0.7 as an f32 is not the f64 0.7.
        SettingValue::Decimal(self.to_string().parse().unwrap_or_else(|_| f64::from(*self)))
    }
}

/// Types with a word for each value. A second word is read as well, and never written.
macro_rules! words {
    ($type:ty { $($word:literal $(| $also:literal)* => $value:expr),* $(,)? }) => {
        impl SettingType for $type {
            const TAKES: Takes = Takes::OneOf(&[$($word),*]);

            fn read(value: &SettingValue, _: &Setting) -> Option<Self> {
                let SettingValue::Text(text) = value else { return None };
                match text.as_str() {
                    $($word $(| $also)* => Some($value),)*
                    _ => None,
                }
            }

            fn write(&self) -> SettingValue {
                let words = [$(($word, $value)),*];
                let word = words.iter().find(|(_, value)| value == self);
                word.map_or(SettingValue::Unset, |(word, _)| (*word).into())
            }
        }
    };
}

words!(KeyringChoice { "system" => Self::System, "off" => Self::Off });
words!(Pooling { "when_faster" => Self::WhenFaster, "always" => Self::Always });
words!(AskKeys {
    "off" => Self::Off,
    "ctrl+alt+space" => Self::CtrlAltSpace,
    "ctrl+shift+space" => Self::CtrlShiftSpace,
    "ctrl+alt+i" => Self::CtrlAltI,
});
words!(ThinkingChoice { "usual" => Self::Usual, "off" => Self::Off, "on" => Self::On });
words!(NewVersions { "off" => Self::Off, "tell" => Self::Tell, "install" => Self::Install });
words!(FormFactor {
    "laptop" => Self::Laptop,
    "desktop" => Self::Desktop,
    "tower" => Self::Tower,
    "mini" => Self::Mini,
    "server" => Self::Server,
});
words!(SplitChoice {
    "planned" => Self::Planned,
    "uniform" => Self::Uniform,
    "weighted" => Self::Weighted,
});
words!(ActivationChoice {
    "auto" => Self::ByLink,
    "fp16" | "f16" => Self::Always(ActivationDtype::F16),
    "fp32" | "f32" => Self::Always(ActivationDtype::F32),
    "q8" => Self::Always(ActivationDtype::Q8),
});
// A least trust below guest would open the gate to devices that are not paired.
words!(TrustLevel {
    "guest" => Self::Guest,
    "trusted" => Self::Trusted,
    "own" => Self::Own,
});

/// Types that are read from a text.
macro_rules! texts {
    ($($type:ty, $form:expr, $read:expr, $write:expr;)*) => {$(
        impl SettingType for $type {
            const TAKES: Takes = Takes::Text($form);

            fn read(value: &SettingValue, _: &Setting) -> Option<Self> {
                let SettingValue::Text(text) = value else { return None };
                let read: fn(&str) -> Option<Self> = $read;
                read(text)
            }

            fn write(&self) -> SettingValue {
                let write: fn(&Self) -> String = $write;
                SettingValue::Text(write(self))
            }
        }
    )*};
}

texts! {
    DeviceName, "a name", |text| Some(Self::sanitised(text)), |name| name.as_str().to_owned();
    SocketAddr, "an address with a port, such as `127.0.0.1:4587`",
        |text| text.parse().ok(), Self::to_string;
    PathBuf, "a whole path, or nothing",
        |text| Some(Path::new(text)).filter(|path| path.is_absolute()).map(Path::to_owned),
        |path| path.display().to_string();
    Language, "the code of a language, such as `de`, or nothing", Language::of, |it| it.0.clone();
    LayerRange, "the first and the last layer, such as `2-5`", layers, |range| {
        format!("{}-{}", range.start(), range.end().saturating_sub(1))
    };
    Backend, Backend::FORMS, |text| text.parse().ok(), Self::to_string;
    QuietHours, "two different times such as `22:00-07:00`, or nothing",
        |text| text.parse().ok(), Self::to_string;
}

/// Web origins as a browser sends them.
impl SettingType for Vec<String> {
    const TAKES: Takes = Takes::Texts(
        "at most 32 exact origins such as `http://localhost:3000`, without a path or `*`",
    );

    fn read(value: &SettingValue, _: &Setting) -> Option<Self> {
        let SettingValue::Texts(origins) = value else { return None };
        (origins.len() <= ORIGINS_MAX && origins.iter().all(|it| is_origin(it)))
            .then(|| origins.clone())
    }

    fn write(&self) -> SettingValue {
        SettingValue::Texts(self.clone())
    }
}

impl SettingType for ModelNames {
    const TAKES: Takes = Takes::Texts("names of models, at most 256");

    fn read(value: &SettingValue, _: &Setting) -> Option<Self> {
        let SettingValue::Texts(names) = value else { return None };
        (names.len() <= NAMES_MAX && names.iter().all(|it| !it.is_empty()))
            .then(|| Self(names.clone()))
    }

    fn write(&self) -> SettingValue {
        SettingValue::Texts(self.0.clone())
    }
}

impl SettingType for HostNames {
    const TAKES: Takes =
        Takes::Texts("at most 32 names of computers such as `kitchen.lan`, without a port or `*`");

    fn read(value: &SettingValue, _: &Setting) -> Option<Self> {
        let SettingValue::Texts(names) = value else { return None };
        Self::of(names)
    }

    fn write(&self) -> SettingValue {
        SettingValue::Texts(self.0.clone())
    }
}

fn is_origin(text: &str) -> bool {
    // Pages that lie in a program's own files.
    if text == "file://" {
        return true;
    }
    let host = text.split_once("://").map(|(_, host)| host);
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', ' ', '?', '#', '@']))
}

/// `2-5`: both included, as people count.
fn layers(text: &str) -> Option<LayerRange> {
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let end = number(last)?.checked_add(1)?;
    LayerRange::new(number(first)?, end).ok().filter(|range| !range.is_empty())
}

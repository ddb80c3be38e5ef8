//! From one declaration of each setting: the typed structs, how they are read and written back, and
//! the table `SETTINGS`.
//!
//! Own code, because no library has all of it: `confique` makes templates, but knows no ranges or
//! units; JSON-schema derives know those, but read no TOML with line numbers.

use toml_edit::{Document, Item};

use super::OutOfRange;
use super::kinds::SettingType;
use super::setting::Takes;
use super::value::SettingValue;

/// Declares sections of settings. `new` makes the struct, `existing` fills one of another crate.
macro_rules! declare {
    ($(
        $(#[doc = $about:literal])+
        $(#[derive($derived:ident)])*
        $how:ident $Section:ident in $section:literal {
            $(
                $(#[doc = $doc:literal])+
                $key:literal => $field:ident: $type:ty = $default:expr, $spec:expr;
            )*
            $( nested $nested:ident: $Nested:ident, $inner:literal; )*
        }
    )*) => {
        $(
            declare!(@$how $(#[doc = $about])+ $(#[derive($derived)])* $Section {
                $( $(#[doc = $doc])+ $field: $type, )*
                $( #[doc = $inner] $nested: $Nested, )*
            });

            impl Section for $Section {
                fn read(found: &Found<'_>) -> Result<Self, OutOfRange> {
                    Ok(Self {
                        $( $field: found.value($key, || $default)?, )*
                        $( $nested: Section::read(found)?, )*
                    })
                }

                fn write(&self, values: &mut Vec<(&'static str, SettingValue)>) {
                    $( values.push(($key, SettingType::write(&self.$field))); )*
                    $( self.$nested.write(values); )*
                }
            }
        )*

        /// Every setting, in the order of the file.
        pub static SETTINGS: &[Setting] = &[$($(
            Setting {
                key: $key,
                text: concat!($($doc, "\n"),+),
                takes: narrowed(<$type as SettingType>::TAKES, $spec.takes),
                is_optional: <$type as SettingType>::IS_OPTIONAL,
                spec: $spec,
            },
        )*)*];

        /// Every section and what it is about, in the order of the file.
        pub(super) static SECTIONS: &[(&str, &str)] =
            &[$( ($section, concat!($($about, "\n"),+)), )*];
    };
    (@new $(#[doc = $about:literal])+ $(#[derive($derived:ident)])* $Section:ident {
        $( $(#[doc = $doc:literal])+ $field:ident: $type:ty, )*
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        $(#[derive($derived)])*
        pub struct $Section {
            $( $(#[doc = $doc])+ pub $field: $type, )*
        }
    };
    (@existing $(#[doc = $about:literal])+ $Section:ident { $($field:tt)* }) => {};
}

pub(super) use declare;

/// The fields of one or more sections.
pub(super) trait Section: Sized {
    /// Reads them; what is absent has its default.
    fn read(found: &Found<'_>) -> Result<Self, OutOfRange>;

    /// Adds every key with its value.
    fn write(&self, values: &mut Vec<(&'static str, SettingValue)>);
}

/// What the file says, as far as it can be parsed.
pub(super) struct Found<'a> {
    document: Option<&'a Document<&'a str>>,
}

impl<'a> Found<'a> {
    /// Nothing: every setting has its default.
    pub(super) const NOTHING: Found<'static> = Found { document: None };

    pub(super) fn new(document: &'a Document<&'a str>) -> Self {
        Self { document: Some(document) }
    }

    /// The value of `key`, else the default.
    pub(super) fn value<T: SettingType>(
        &self,
        key: &'static str,
        default: impl FnOnce() -> T,
    ) -> Result<T, OutOfRange> {
        let Some(item) = self.item(key)? else { return Ok(default()) };
        let setting = super::setting(key).expect("the same declaration makes the table");
        let value = SettingValue::of_toml(item);
        value.and_then(|value| T::read(&value, setting)).ok_or_else(|| OutOfRange {
            key,
            value: shown(item),
            expected: setting.takes.to_string(),
        })
    }

    fn item(&self, key: &'static str) -> Result<Option<&'a Item>, OutOfRange> {
        let Some(document) = self.document else { return Ok(None) };
        let mut item = document.as_item();
        let mut parts = key.split('.').peekable();
        let mut length = 0;
        while let Some(part) = parts.next() {
            let Some(inner) = item.get(part) else { return Ok(None) };
            length += part.len();
            if parts.peek().is_some() && !inner.is_table_like() {
                let section = &key[..length];
                return Err(OutOfRange {
                    key: section,
                    value: shown(inner),
                    expected: format!("settings of its own, below a line `[{section}]`"),
                });
            }
            length += 1;
            item = inner;
        }
        Ok(Some(item))
    }
}

/// What a person wrote, on one line and not longer than an error message should be.
fn shown(item: &Item) -> String {
    const CHARS_MAX: usize = 80;
    let text = match item.as_value() {
        Some(value) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        None => "a section".to_owned(),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= CHARS_MAX {
        return line;
    }
    line.chars().take(CHARS_MAX).chain(['…']).collect()
}

/// What a setting takes: what its type takes, unless its declaration says it more narrowly.
pub(super) const fn narrowed(usual: Takes, declared: Option<Takes>) -> Takes {
    match declared {
        Some(takes) => takes,
        None => usual,
    }
}

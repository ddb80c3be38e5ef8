//! Models that a setting counts for.

/// More names are a mistake; the list is refused.
pub(super) const NAMES_MAX: usize = 256;

/// Names of models, as the list of models shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelNames(pub(super) Vec<String>);

impl ModelNames {
    /// No name, which means every model.
    pub const ALL: Self = Self(Vec::new());

    /// Whether the model of this name is one of them, in whatever case. Where none is named, each
    /// is.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}

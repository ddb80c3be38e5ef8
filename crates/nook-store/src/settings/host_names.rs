//! Names by which programs may ask for this computer.

/// A longer list is a mistake; it is refused.
pub(super) const HOST_NAMES_MAX: usize = 32;

/// Longest name, as DNS has it.
const HOST_NAME_BYTES_MAX: usize = 253;

/// Names of computers, without a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames(pub Vec<String>);

impl HostNames {
    /// The names, if each can be one.
    pub(super) fn of(names: &[String]) -> Option<Self> {
        let is_name = |name: &String| {
            let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            (1..=HOST_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(letters)
        };
        (names.len() <= HOST_NAMES_MAX && names.iter().all(is_name)).then(|| Self(names.to_vec()))
    }
}

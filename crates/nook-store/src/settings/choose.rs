//! A choice of the owner, with what goes along with it.

use std::net::{Ipv4Addr, SocketAddr};

use super::setting::{Setting, Takes};
use super::value::SettingValue;
use super::{Megabytes, SettingsError, SettingsFile, usual_shard_bytes};

impl Setting {
    /// The value that `words` of a command line mean. What makes no sense stays a text, and is
    /// refused
    /// with what the setting takes.
    #[must_use]
    pub fn typed(&self, words: &[String]) -> SettingValue {
        let [word] = words else { return SettingValue::Texts(words.to_vec()) };
        let text = || SettingValue::Text(word.clone());
        match self.takes {
            Takes::Switch => match word.as_str() {
                "true" | "on" => true.into(),
                "false" | "off" => false.into(),
                _ => text(),
            },
            Takes::Whole { .. } => word.parse().map_or_else(|_| text(), SettingValue::Number),
            Takes::Decimal { .. } => word.parse().map_or_else(|_| text(), SettingValue::Decimal),
            Takes::OneOf(_) | Takes::Text(_) => text(),
            Takes::Texts(_) if word.is_empty() => SettingValue::Texts(Vec::new()),
            Takes::Texts(_) => SettingValue::Texts(words.to_vec()),
        }
    }
}

impl SettingsFile {
    /// Sets one key as the owner chose it, on a machine that has `memory` bytes in all, as far as
    /// it says. Two keys are special:
    ///
    /// - With `port.expose_to_lan` goes the address of the port: a loopback address is reached by
    ///   nobody else, and another one is refused where nobody else may reach it. One that fits
    ///   already stays, and so does the number of the port.
    /// - The usual amount of lent memory is no choice: another machine, or more memory, changes it.
    pub fn choose(
        &mut self,
        key: &str,
        value: SettingValue,
        memory: Option<u64>,
    ) -> Result<(), SettingsError> {
        const EXPOSE: &str = "port.expose_to_lan";
        const LENT_MEMORY: &str = "distributed_inference.host.max_lent_memory_mb";
        match (key, &value) {
            (EXPOSE, SettingValue::Switch(on)) => self.expose(*on),
            (EXPOSE, SettingValue::Unset) => self.expose(false),
            (LENT_MEMORY, SettingValue::Number(megabytes))
                if u64::try_from(*megabytes).map(|it| Megabytes(it).bytes())
                    == Ok(usual_shard_bytes(memory)) =>
            {
                self.change(&[(key, SettingValue::Unset)])
            }
            _ => self.change(&[(key, value)]),
        }
    }

    fn expose(&mut self, on: bool) -> Result<(), SettingsError> {
        let port = self.settings().port.address;
        let ip = match (on, port.ip().is_loopback()) {
            (true, true) => Ipv4Addr::UNSPECIFIED.into(),
            (false, false) => Ipv4Addr::LOCALHOST.into(),
            _ => port.ip(),
        };
        let address = SocketAddr::new(ip, port.port()).to_string();
        self.change(&[("port.expose_to_lan", on.into()), ("port.address", address.as_str().into())])
    }
}

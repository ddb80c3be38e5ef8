//! How one node of a household is to be.

use std::ffi::OsString;
use std::net::Ipv4Addr;

use crate::bridge::Bridge;

/// A node before it is started.
#[derive(Debug, Clone)]
pub struct NodePlan {
    pub(crate) name: &'static str,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) log: &'static str,
    /// Words before the program: enter a namespace or the like, then become the program.
    pub(crate) prefix: Vec<OsString>,
    /// Where it is found.
    pub(crate) address: Ipv4Addr,
    /// Whether it opens its port for programs.
    pub(crate) port: bool,
}

impl NodePlan {
    /// A node of a household on this one machine that offers nothing yet.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        let plan = Self {
            name,
            settings: Vec::new(),
            log: "info",
            prefix: Vec::new(),
            address: Ipv4Addr::LOCALHOST,
            port: false,
        };
        plan.with("device.name", format!("{name:?}"))
            .with("network.loopback", "true")
            .with("network.listen_port", "0")
            // One machine gains nothing by dividing a model among its own processes; what is tested
            // is the dividing.
            .with("distributed_inference.pooling", "\"always\"")
            // Looking for GPUs and measuring them takes processes of its own, and the time of
            // tests that are about something else.
            .with("distributed_inference.backend", "\"native\"")
            // Whoever tests on a laptop may do so on battery.
            .with("distributed_inference.host.pause.on_battery", "false")
            .with("distributed_inference.host.pause.in_full_screen", "false")
    }

    /// A node as it is installed, with nothing chosen but its name. What else is set is of the test
    /// alone: several nodes on one machine, which may run on battery.
    #[must_use]
    pub fn installed(name: &'static str) -> Self {
        let mut plan = Self::new(name);
        plan.settings.retain(|(key, _)| {
            key != "distributed_inference.pooling" && key != "distributed_inference.backend"
        });
        plan
    }

    /// The same node, offering these layers of every model once it shares: `1-2`.
    #[must_use]
    pub fn offering(self, layers: &str) -> Self {
        self.with("distributed_inference.host.layers", format!("{layers:?}"))
    }

    /// The same node with a key of `settings.toml`; the value as TOML writes it.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self.settings.push((key.to_owned(), value.into()));
        self
    }

    /// The same node with another log level, its workers' too.
    #[must_use]
    pub fn logging(mut self, level: &'static str) -> Self {
        self.log = level;
        self
    }

    /// The same node, whose workers compute with this many threads instead of one for each core.
    #[must_use]
    pub fn computing_with(self, threads: usize) -> Self {
        self.behind(vec!["env".into(), format!("INGLENOOK_THREADS={threads}").into()])
    }

    /// The same node with its port for programs, at any number.
    #[must_use]
    pub fn with_port(mut self) -> Self {
        self.port = true;
        self.with("port.address", "\"127.0.0.1:0\"")
    }

    /// The same node, started behind these words.
    #[must_use]
    pub fn behind(mut self, prefix: Vec<OsString>) -> Self {
        self.prefix = prefix;
        self
    }

    /// The same node, whose folder of models is a disk of its own of so many bytes; it is gone with
    /// the node's process. Linux only.
    #[must_use]
    pub fn with_disk_for_models(self, bytes: u64) -> Self {
        let script = format!(
            r#"for word; do [ "$last" = --home ] && home=$word; last=$word; done
            mkdir -p "$home/models" && mount -t tmpfs -o size={bytes} models "$home/models" &&
            exec "$@""#
        );
        let words = ["unshare", "--mount", "sh", "-c", &script, "sh"];
        self.behind(words.into_iter().map(OsString::from).collect())
    }

    /// The same node on a machine of its own.
    pub(crate) fn in_room(mut self, bridge: &Bridge, room: usize) -> anyhow::Result<Self> {
        self.prefix.splice(0..0, bridge.enter(room));
        self.address = Bridge::address(room)?;
        Ok(self.with("network.loopback", "false"))
    }

    /// What `settings.toml` says before the first start.
    pub(crate) fn file(&self) -> String {
        self.settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
    }
}

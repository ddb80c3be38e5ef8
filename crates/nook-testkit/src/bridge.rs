//! A network of its own: a bridge with cables to rooms, each room a network namespace.
//!
//! Nothing of it reaches any other network. It is made of namespaces that each live as long as one
//! small process, whose standard input the test holds: when the test ends, in whatever way, those
//! end, and with the last process in them the namespaces, cables and addresses are gone.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use nook_base::clock;

/// Longest wait for a namespace to be there.
const ENTER_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A bridge with rooms. Dropping it removes everything; the nodes in the rooms must end before.
#[derive(Debug)]
pub struct Bridge {
    rooms: Vec<Anchor>,
    hub: Anchor,
}

/// Whose right it is to make namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// The system's owner makes them directly.
    Root,
    /// Anybody may inside a user namespace, where the system allows those.
    User,
}

/// A process that does nothing but hold a namespace.
#[derive(Debug)]
struct Anchor {
    child: Child,
    rights: Rights,
}

impl Bridge {
    /// A bridge with that many rooms; the error says why this machine does not allow one.
    pub fn build(rooms: usize) -> anyhow::Result<Self> {
        match Self::with(Rights::Root, rooms) {
            Ok(bridge) => Ok(bridge),
            Err(root) => Self::with(Rights::User, rooms)
                .with_context(|| format!("neither directly ({root:#}) nor as a user")),
        }
    }

    fn with(rights: Rights, rooms: usize) -> anyhow::Result<Self> {
        let hub = Anchor::hub(rights)?;
        hub.run("ip link set lo up")?;
        hub.run("ip link add house type bridge mcast_snooping 0")?;
        hub.run("ip link set house up")?;
        let mut bridge = Self { rooms: Vec::new(), hub };
        for number in 0..rooms {
            let room = bridge.hub.room()?;
            let pid = room.child.id();
            bridge
                .hub
                .run(&format!("ip link add cable{number} type veth peer name eth0 netns {pid}"))?;
            bridge.hub.run(&format!("ip link set cable{number} master house up"))?;
            room.run("ip link set lo up")?;
            room.run(&format!("ip address add 10.77.0.{}/24 dev eth0", number + 1))?;
            room.run("ip link set eth0 up")?;
            bridge.rooms.push(room);
        }
        Ok(bridge)
    }

    /// Words that start a program in a room.
    #[must_use]
    pub fn enter(&self, room: usize) -> Vec<OsString> {
        self.rooms[room].enter()
    }

    /// Takes the cable of a room out at the bridge's end: nobody is told, packets are just gone.
    pub fn unplug(&self, room: usize) -> anyhow::Result<()> {
        self.hub.run(&format!("ip link set cable{room} down"))
    }

    /// Puts it back.
    pub fn plug(&self, room: usize) -> anyhow::Result<()> {
        self.hub.run(&format!("ip link set cable{room} up"))
    }

    /// Gives a room another address, as another Wi-Fi does; connections of the old one are just dead.
    pub fn readdress(&self, room: usize, last: u8) -> anyhow::Result<()> {
        self.rooms[room].run("ip address flush dev eth0")?;
        self.rooms[room].run(&format!("ip address add 10.77.0.{last}/24 dev eth0"))
    }
}

impl Anchor {
    fn hub(rights: Rights) -> anyhow::Result<Self> {
        let mut words = vec!["unshare"];
        if rights == Rights::User {
            words.extend(["--user", "--map-root-user"]);
        }
        words.extend(["--net", "cat"]);
        Self::hold(words.into_iter().map(OsString::from).collect(), rights)
    }

    /// A namespace beside this one, with the same owner.
    fn room(&self) -> anyhow::Result<Self> {
        let mut words = self.enter();
        words.extend(["unshare", "--net", "cat"].map(OsString::from));
        Self::hold(words, self.rights)
    }

    fn hold(words: Vec<OsString>, rights: Rights) -> anyhow::Result<Self> {
        let mut words = words.into_iter();
        let program = words.next().context("there are words")?;
        let child = Command::new(&program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} cannot be run", program.display()))?;
        let mut anchor = Self { child, rights };
        let end = clock::now() + ENTER_LIMIT;
        // By the time it has become `cat`, it is inside.
        while !anchor.is_inside() {
            let ended = anchor.child.try_wait()?;
            anyhow::ensure!(ended.is_none(), "no network namespace can be made");
            anyhow::ensure!(clock::now() < end, "no network namespace was made in time");
            std::thread::sleep(LOOK);
        }
        Ok(anchor)
    }

    fn is_inside(&self) -> bool {
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == "cat")
    }

    fn enter(&self) -> Vec<OsString> {
        let pid = self.child.id().to_string();
        let mut words = vec!["nsenter", "--target", &pid, "--net"];
        if self.rights == Rights::User {
            words.extend(["--user", "--preserve-credentials"]);
        }
        words.into_iter().map(OsString::from).collect()
    }

    fn run(&self, line: &str) -> anyhow::Result<()> {
        let words = self.enter();
        let output = Command::new(&words[0])
            .args(&words[1..])
            .args(line.split(' '))
            .output()
            .with_context(|| line.to_owned())?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{line}: {}", said.trim());
        Ok(())
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

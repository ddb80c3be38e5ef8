//! A network of its own: a bridge with cables to rooms, each room a network namespace.
//!
//! Nothing of it reaches any other network. It is made of namespaces that each live as long as one
//! small process, whose standard input the test holds: when the test ends, in whatever way, those
//! end, and with the last process in them the namespaces, cables and addresses are gone.
//!
//! A test that has sockets of its own visits the bridge, and is one more machine on that network.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, ThreadId};
use std::time::Duration;

use anyhow::Context as _;
use nook_base::clock;

/// Longest wait for a namespace to be there.
const ENTER_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Where a test is found that visits the bridge.
const HUB: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

/// What addresses on the second cable begin with.
const SECOND: &str = "10.78.0.";

/// A bridge with rooms. Dropping it removes everything; the nodes in the rooms must end before.
#[derive(Debug)]
pub struct Bridge {
    visit: Option<Visit>,
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

/// The thread that made it is at the bridge until this is dropped, and then where it was before.
#[derive(Debug)]
struct Visit {
    home: File,
    thread: ThreadId,
}

/// A process that does nothing but hold a namespace.
#[derive(Debug)]
struct Anchor {
    child: Child,
    rights: Rights,
}

impl Bridge {
    /// A bridge with that many rooms; the error says why this machine does not allow one.
    pub(crate) fn build(rooms: usize) -> anyhow::Result<Self> {
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
        hub.run(&format!("ip address add {HUB}/24 dev house"))?;
        let mut bridge = Self { visit: None, rooms: Vec::new(), hub };
        for number in 0..rooms {
            let room = bridge.hub.room()?;
            let pid = room.child.id();
            bridge
                .hub
                .run(&format!("ip link add cable{number} type veth peer name eth0 netns {pid}"))?;
            bridge.hub.run(&format!("ip link set cable{number} master house up"))?;
            room.run("ip link set lo up")?;
            room.run(&format!("ip address add {}/24 dev eth0", Self::address(number)?))?;
            room.run("ip link set eth0 up")?;
            bridge.rooms.push(room);
        }
        Ok(bridge)
    }

    /// The same with the calling thread at the bridge until it is dropped: what that thread listens
    /// at, dials and starts from now on is on this network. Only the system's owner may move a
    /// thread.
    pub(crate) fn visit(mut self) -> anyhow::Result<Self> {
        self.visit = Some(Visit::begin(self.hub.child.id())?);
        Ok(self)
    }

    /// Where a room is found, unless it was given another address.
    pub(crate) fn address(room: usize) -> anyhow::Result<Ipv4Addr> {
        Ok(Ipv4Addr::new(10, 77, 0, u8::try_from(room + 1)?))
    }

    /// Words that start a program in a room.
    #[must_use]
    pub(crate) fn enter(&self, room: usize) -> Vec<OsString> {
        self.rooms[room].enter()
    }

    /// Takes the cable of a room out at the bridge's end: nobody is told, packets are just gone.
    pub fn unplug(&self, room: usize) -> anyhow::Result<()> {
        self.hub.run(&format!("ip link set cable{room} down"))?;
        Ok(())
    }

    /// From now on a room hears nothing of the others, which still hear it.
    pub fn deafen(&self, room: usize) -> anyhow::Result<()> {
        self.pass_on(room, "off")?;
        // Nobody is known to be there any more, and nobody will be, so nothing is passed on there.
        self.hub.run(&format!("ip link set cable{room} type bridge_slave fdb_flush"))?;
        Ok(())
    }

    /// Makes the cable of a room good again.
    pub fn plug(&self, room: usize) -> anyhow::Result<()> {
        self.pass_on(room, "on")?;
        self.hub.run(&format!("ip link set cable{room} up"))?;
        Ok(())
    }

    /// What goes into a room goes slowly from now on: so many kilobits a second. Nothing is lost on
    /// the way: no more is sent at once than waits there, because a link whose packets are lost is
    /// silent for as long as one whose device is gone.
    pub fn slow(&self, room: usize, kbit: u32) -> anyhow::Result<()> {
        // The first number is the least, the last the most that is under way to a program.
        let window = "echo 4096 65536 131072 > /proc/sys/net/ipv4/tcp_rmem";
        self.rooms[room].run_words(&["sh", "-c", window])?;
        // Where `ip` and `tc` are apart, `tc` is for the system's owner, whose programs are there.
        self.hub.run(&format!(
            "/sbin/tc qdisc replace dev cable{room} root tbf rate {kbit}kbit burst 64kb limit 512kb"
        ))?;
        Ok(())
    }

    /// A cable that was slow is fast again. What still waits before it is passed on: a queue that
    /// is taken away loses all that is in it, and the link stays silent until that was sent again.
    pub fn speed_up(&self, room: usize) -> anyhow::Result<()> {
        self.hub.run(&format!(
            "/sbin/tc qdisc change dev cable{room} root tbf rate 10gbit burst 16mb limit 16mb"
        ))?;
        Ok(())
    }

    /// The cable of a room is a narrow one from now on, as a weak Wi-Fi is: so many kilobits a
    /// second in each direction, and no more than two packets ahead of that. So a small message
    /// takes its time too. Nothing is lost.
    pub fn narrow(&self, room: usize, kbit: u32) -> anyhow::Result<()> {
        let shape = format!("root tbf rate {kbit}kbit burst 3200b limit 512kb");
        self.hub.run(&format!("/sbin/tc qdisc replace dev cable{room} {shape}"))?;
        self.rooms[room].run(&format!("/sbin/tc qdisc replace dev eth0 {shape}"))?;
        Ok(())
    }

    /// A second cable between all rooms, which is not plugged in yet.
    pub fn lay_second(&self) -> anyhow::Result<()> {
        self.hub.run("ip link add second type bridge mcast_snooping 0")?;
        self.hub.run("ip link set second up")?;
        for (number, room) in self.rooms.iter().enumerate() {
            let pid = room.child.id();
            let cable = format!("second{number}");
            self.hub.run(&format!("ip link add {cable} type veth peer name eth1 netns {pid}"))?;
            self.hub.run(&format!("ip link set {cable} master second"))?;
        }
        Ok(())
    }

    /// Every address of a room on its first cable: the one that it was given, and the one that the
    /// system makes for the interface itself.
    pub fn first_addresses(&self, room: usize) -> anyhow::Result<Vec<String>> {
        let told = self.rooms[room].run("ip -oneline address show dev eth0")?;
        let of = |line: &str| Some(line.split_whitespace().nth(3)?.split_once('/')?.0.to_owned());
        Ok(told.lines().filter_map(of).collect())
    }

    /// Plugs the second cable of a room in, which gets an address there.
    pub fn plug_second(&self, room: usize) -> anyhow::Result<()> {
        let address = format!("{SECOND}{}", room + 1);
        self.hub.run(&format!("ip link set second{room} up"))?;
        self.rooms[room].run(&format!("ip address replace {address}/24 dev eth1"))?;
        self.rooms[room].run("ip link set eth1 up")?;
        Ok(())
    }

    /// Takes it out at the other end: the room sees that there is nothing, and keeps its address.
    pub fn unplug_second(&self, room: usize) -> anyhow::Result<()> {
        self.hub.run(&format!("ip link set second{room} down"))?;
        Ok(())
    }

    fn pass_on(&self, room: usize, on: &str) -> anyhow::Result<()> {
        let kinds = format!("learning {on} flood {on} mcast_flood {on} bcast_flood {on}");
        self.hub.run(&format!("ip link set cable{room} type bridge_slave {kinds}"))?;
        Ok(())
    }

    /// Bytes that have come into a room over its cable, with all that carries them.
    pub fn received(&self, room: usize) -> anyhow::Result<u64> {
        // What a process reads there of another one is of the network of that one (proc_net(5)).
        let devices = format!("/proc/{}/net/dev", self.rooms[room].child.id());
        let devices = fs::read_to_string(devices)?;
        let mut cables = devices.lines().filter_map(|line| line.trim().strip_prefix("eth0:"));
        let counts = cables.next().context("the room has a cable")?;
        let received = counts.split_whitespace().next().context("counts of the cable")?;
        Ok(received.parse()?)
    }

    /// The hardware address of a room, as `ip` writes it.
    pub fn mac(&self, room: usize) -> anyhow::Result<String> {
        let shown = self.rooms[room].run("ip -oneline link show dev eth0")?;
        let mut words = shown.split_whitespace().skip_while(|word| *word != "link/ether");
        Ok(words.nth(1).context("the cable has an address")?.to_owned())
    }

    /// A socket of the test in a room, which hears what comes for everybody there at this port.
    /// Only the system's owner may put one there.
    pub fn hear(&self, room: usize, port: u16) -> anyhow::Result<UdpSocket> {
        self.make_in(room, move || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))
    }

    /// A socket of the test that listens in a room, for the programs there alone. Only the system's
    /// owner may put one there.
    pub fn listen(&self, room: usize) -> anyhow::Result<TcpListener> {
        self.make_in(room, || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
    }

    /// A socket stays where the thread was that made it.
    fn make_in<S: Send + 'static>(
        &self,
        room: usize,
        make: impl FnOnce() -> io::Result<S> + Send + 'static,
    ) -> anyhow::Result<S> {
        let process = self.rooms[room].child.id().to_string();
        let network = File::open(Path::new("/proc").join(process).join("ns/net"))?;
        let made = thread::spawn(move || {
            enter(&network)?;
            Ok(make()?)
        });
        made.join().map_err(|_| anyhow::anyhow!("the thread panicked"))?
    }

    /// Gives a room another address, as another Wi-Fi does; connections of the old one are just
    /// dead.
    pub fn readdress(&self, room: usize, last: u8) -> anyhow::Result<()> {
        self.rooms[room].run("ip address flush dev eth0")?;
        self.rooms[room].run(&format!("ip address add 10.77.0.{last}/24 dev eth0"))?;
        Ok(())
    }
}

/// Where a device or a cable listens that the test plays: at the bridge if it visits one, else on
/// loopback.
pub(crate) fn own_address() -> Ipv4Addr {
    // The system knows where the calling thread is.
    match UdpSocket::bind((HUB, 0)) {
        Ok(_) => HUB,
        Err(_) => Ipv4Addr::LOCALHOST,
    }
}

impl Visit {
    fn begin(hub: u32) -> anyhow::Result<Self> {
        let home = File::open("/proc/thread-self/ns/net")?;
        let network = File::open(Path::new("/proc").join(hub.to_string()).join("ns/net"))?;
        enter(&network).context("the test cannot be at the bridge")?;
        Ok(Self { home, thread: thread::current().id() })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // Any other thread is where it was all the time.
        if self.thread == thread::current().id() {
            // Where that fails, it stays where nothing is any more, and ends with its test.
            let _ = enter(&self.home);
        }
    }
}

/// Moves the calling thread to a network.
#[cfg(target_os = "linux")]
fn enter(network: &File) -> anyhow::Result<()> {
    use std::os::fd::AsFd as _;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    Ok(move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?)
}

#[cfg(not(target_os = "linux"))]
fn enter(_: &File) -> anyhow::Result<()> {
    anyhow::bail!("this system has no network namespaces")
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
            thread::sleep(LOOK);
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

    fn run(&self, line: &str) -> anyhow::Result<String> {
        self.run_words(&line.split(' ').collect::<Vec<_>>())
    }

    fn run_words(&self, line: &[&str]) -> anyhow::Result<String> {
        let words = self.enter();
        let command = Command::new(&words[0]).args(&words[1..]).args(line).output();
        let line = line.join(" ");
        let output = command.with_context(|| line.clone())?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{line}: {}", said.trim());
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

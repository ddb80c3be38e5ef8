"""Starts real `nook` nodes with homes of their own and speaks to them as their owners would.

The program is found through the variable `NOOK_BIN`, which `cargo xtask test` sets. Every node gets
a free port, keeps its key in a file (one keychain would give all of them one identity) and ends
when its `with` block does.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

# They end a test that hangs; a busy machine may take a good part of each.
START_SECONDS = 120
ASK_SECONDS = 120
LEAVE_SECONDS = 60
# How long a slowed process runs at a time, and how much slower that makes it.
RUN_SECONDS = 0.005
SLOW_TIMES = 16
# Ports below those that the system gives to connections: nobody takes one between its choice and its use.
PORTS = range(12_000, 32_000)
# What `nook pair` prints: the code in two groups of three, and the address to type.
CODE = re.compile(r"\b(\d{3}) *(\d{3})\b")
ADDRESS = re.compile(r"\b(\d+\.\d+\.\d+\.\d+:\d+)\b")


class Node:
    """One device of the household: a process, a home, a name."""

    def __init__(self, name: str, *, layers: str | None = None, with_port: bool = False) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="inglenook-node-")
        self.home = Path(self._folder.name) / "home"
        self.port = free_port() if with_port else None
        self.home.mkdir(parents=True)
        write_settings(self.home, name, layers=layers, port=self.port)
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "Node":
        command = [program(), "--home", str(self.home), "up"]
        if self.port is None:
            command.append("--no-port")
        self._log = (self.home / "log.txt").open("wb")
        self._process = subprocess.Popen(
            command,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self._wait_until_up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process
        if error:
            print(f"--- log of {self.name} ---\n{self.log()}")
        self._process.terminate()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._folder.cleanup()

    @property
    def address(self) -> str:
        """Address of the port, for clients that know their paths themselves."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """Address of the OpenAI-compatible port."""
        return f"{self.address}/v1"

    @property
    def process_id(self) -> int:
        """The process of the node, for a test that takes it away."""
        assert self._process
        return self._process.pid

    def workers(self) -> list[int]:
        """Its worker processes."""
        return [pid for pid in processes() if parent_of(pid) == self.process_id]

    def key(self) -> str:
        """The key of the OpenAI-compatible port."""
        return self.ask("key").strip()

    def devices(self) -> list[dict[str, Any]]:
        """The other devices that it knows."""
        return json.loads(self.ask("devices", "--json"))

    def share(self, on: bool) -> None:
        """Switches lending."""
        self.ask("share", "on" if on else "off")

    def show_code(self) -> "ShownCode":
        """Opens a pairing window."""
        return ShownCode(self)

    def ask(self, *words: str) -> str:
        """Runs a command of the owner and gives what it printed."""
        done = subprocess.run(
            [program(), "--home", str(self.home), *words],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"nook {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    def log(self) -> str:
        """What the node wrote so far."""
        return (self.home / "log.txt").read_text(errors="replace")

    @staticmethod
    def environment() -> dict[str, str]:
        """The environment of a node: no keychain and no session bus of somebody else."""
        environment = dict(os.environ, INGLENOOK_KEYRING="off")
        environment.pop("DBUS_SESSION_BUS_ADDRESS", None)
        environment.pop("INGLENOOK_HOME", None)
        return environment

    def _wait_until_up(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            assert self._process and self._process.poll() is None, f"it ended:\n{self.log()}"
            if " is up" in self.log() and (self.port is None or is_open(self.port)):
                return
            assert time.monotonic() < end, f"{self.name} is not up:\n{self.log()}"
            time.sleep(0.1)


class ShownCode:
    """A code that a node shows until another device has typed it."""

    def __init__(self, node: Node) -> None:
        self._pairing = subprocess.Popen(
            [program(), "--home", str(node.home), "pair"],
            env=node.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._pairing.stdout
        said = self._pairing.stdout.readline() + self._pairing.stdout.readline()
        code, address = CODE.search(said), ADDRESS.search(said)
        assert code and address, f"no code and address in: {said}"
        self.code = "".join(code.groups())
        self.address = address.group(1)

    def cancel(self) -> None:
        """The node shows the code no longer."""
        self._pairing.terminate()
        self._pairing.wait(LEAVE_SECONDS)

    def wait_until_used(self) -> None:
        """Returns when another device has paired."""
        said, _ = self._pairing.communicate(timeout=ASK_SECONDS)
        assert self._pairing.returncode == 0, said


def write_settings(
    home: Path, name: str, *, layers: str | None = None, port: int | None = None
) -> None:
    """Settings of a device in a household on one machine."""
    home.mkdir(parents=True, exist_ok=True)
    lines = ["[device]", f'name = "{name}"', "", "[network]", "listen_port = 0", "loopback = true"]
    # One machine gains nothing by dividing a model among its own processes: it is done all the same.
    lines += ["", "[distributed_inference]", 'pooling = "always"']
    if port is not None:
        lines += ["", "[port]", f'address = "127.0.0.1:{port}"']
    if layers is not None:
        lines += ["", "[distributed_inference.host]", f'layers = "{layers}"']
    # Whoever tests on a laptop may do so on battery.
    lines += ["", "[distributed_inference.host.pause]", "on_battery = false"]
    (home / "settings.toml").write_text("\n".join(lines) + "\n")


def program() -> str:
    """The `nook` under test."""
    found = os.environ.get("NOOK_BIN")
    assert found, "set NOOK_BIN to the nook program; `cargo xtask test` does"
    return found


class Slowed:
    """Processes that run for a small part of the time only, until the `with` block or [end].

    A reply under way is then far from its end when a test gets to do something, on a busy machine too.
    `find` is asked again and again, so a worker that starts meanwhile is slowed as well.
    """

    def __init__(self, find: Callable[[], Iterable[int]]) -> None:
        self._find = find
        self._stopped: set[int] = set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Slowed":
        self._stop()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """From now on they run freely."""
        self._ending.set()
        self._thread.join()
        self._go_on()

    def _run(self) -> None:
        while not self._ending.wait(RUN_SECONDS * (SLOW_TIMES - 1)):
            self._go_on()
            time.sleep(RUN_SECONDS)
            self._stop()

    def _stop(self) -> None:
        for pid in self._find():
            send(pid, signal.SIGSTOP)
            self._stopped.add(pid)

    def _go_on(self) -> None:
        for pid in self._stopped:
            send(pid, signal.SIGCONT)
        self._stopped.clear()


def processes() -> list[int]:
    """Numbers of all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def parent_of(pid: int) -> int | None:
    """Who started a process that still runs."""
    try:
        # The name in parentheses may hold anything; what follows does not.
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state in "ZX" else int(parent)


def send(pid: int, number: signal.Signals) -> None:
    """Sends a signal; a process that has gone is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def free_port() -> int:
    """A port of this machine that nobody uses now, and that no connection is given."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("every port is taken")


def is_open(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True

"""Runs a command on a display, session bus, keychain, network and home of its own.

`python -m gui.run_gui CMD...` starts Xvfb and a session bus, unlocks a keychain (a real Secret
Service; its password must not be empty, or it stays locked) and a window manager (closing a window
the way a person does needs one), runs CMD and takes all of it down again. Two variables steer it:
`GUI_TIMEOUT` in seconds, and `KEEP=1` keeps the folder for looking.

The network is loopback alone, so that no window finds the devices of other tests. Where the system
lets nobody make one, CMD runs on the network of the machine.

Two variables must not be set here: WEBKIT_DISABLE_DMABUF_RENDERER and
WEBKIT_DISABLE_COMPOSITING_MODE make the WebDriver screenshot hang.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

# Less than what `cargo xtask test` allows, so that this end cleans up first.
TIMEOUT_SECONDS = float(os.environ.get("GUI_TIMEOUT", "480"))
SCREEN = "1280x900x24"
INSIDE = "--inside"


def main(command: list[str]) -> int:
    """Sets everything up around `command` and gives its exit status."""
    folder = Path(tempfile.mkdtemp(prefix="inglenook-gui-"))
    environment = private_environment(folder)
    display, xvfb = start_display(folder, environment)
    environment["DISPLAY"] = display
    inside = [sys.executable, "-m", "gui.run_gui", INSIDE, *command]
    session = subprocess.Popen(
        [*private_network(), "dbus-run-session", "--", *inside],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return session.wait(TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"the command took longer than {TIMEOUT_SECONDS:.0f} s", file=sys.stderr)
        return 124
    finally:
        # Whatever the command left behind goes with its session.
        end_group(session.pid)
        xvfb.terminate()
        xvfb.wait(10)
        if not os.environ.get("KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


def main_inside(command: list[str]) -> int:
    """Runs on the private bus: keychain, window manager, command."""
    subprocess.run(
        ["gnome-keyring-daemon", "--unlock", "--components=secrets", "--daemonize"],
        input=b"test",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    manager = subprocess.Popen(
        ["openbox", "--sm-disable"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        manager.terminate()


def private_network() -> list[str]:
    """The words that put a command on a network of its own, or none."""
    alone = 'ip link set lo up && exec "$@"'
    if os.getuid() == 0:
        words = ["unshare", "--net", "sh", "-c", alone, "sh"]
    else:
        # Whoever made the namespaces is root there; the command is who started it again, as windows
        # have a sandbox that takes no half of a root.
        again = ["unshare", "--user", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]
        words = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", alone, "sh", *again]
    try:
        able = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        print("no network of its own can be made here: devices of others are seen", file=sys.stderr)
    return words if able else []


def private_environment(folder: Path) -> dict[str, str]:
    """The environment with every personal folder inside `folder`."""
    home, runtime = folder / "home", folder / "run"
    personal = {
        "HOME": home,
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local/share",
        "XDG_STATE_HOME": home / ".local/state",
        "XDG_RUNTIME_DIR": runtime,
    }
    for path in personal.values():
        path.mkdir(parents=True)
    runtime.chmod(0o700)
    environment = {name: value for name, value in os.environ.items() if name != "WAYLAND_DISPLAY"}
    environment.update({name: str(path) for name, path in personal.items()})
    environment.update(
        GDK_BACKEND="x11",
        GTK_A11Y="none",
        LC_ALL="C.UTF-8",
        LIBGL_ALWAYS_SOFTWARE="1",
        NO_AT_BRIDGE="1",
    )
    return environment


def start_display(folder: Path, environment: dict[str, str]) -> tuple[str, subprocess.Popen]:
    """Starts Xvfb on a free display; gives the display's name and the process."""
    reading, writing = os.pipe()
    with (folder / "xvfb.log").open("wb") as log:
        xvfb = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", SCREEN]
            + ["-nolisten", "tcp", "-noreset"],
            env=environment,
            pass_fds=[writing],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    os.close(writing)
    # Xvfb writes the number when it is ready; the pipe closes without one when it dies.
    with os.fdopen(reading) as pipe:
        number = pipe.readline().strip()
    if not number:
        raise SystemExit(f"Xvfb did not start: {(folder / 'xvfb.log').read_text()}")
    return f":{number}", xvfb


def end_group(group: int) -> None:
    """Ends every process of a session, first politely."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return


if __name__ == "__main__":
    if sys.argv[1:2] == [INSIDE]:
        sys.exit(main_inside(sys.argv[2:]))
    sys.exit(main(sys.argv[1:]))

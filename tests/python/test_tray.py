"""The tray icon and its menu, read and clicked over D-Bus as a desktop's panel does."""

import http.client
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from gui.app import App, close_windows, picture_of_screen, windows
from gui.notices import NoticeBoard
from gui.sni import MenuEntry, Panel, TrayItem, wait_until
from nodes import Slowed, program, send

SHARE, CHAT, DEVICES, SETTINGS, QUIT = (
    "Share this computer",
    "Open chat",
    "Household…",
    "Settings…",
    "Quit",
)
PAUSE_HOUR, PAUSE_TOMORROW = "Pause sharing for an hour", "Pause sharing until tomorrow"
RESUME, FREE_MEMORY = "Resume sharing", "Free memory now"
# Starts a program for which a folder takes the place of the system's batteries.
MOUNT = 'mount --bind "$0" /sys/class/power_supply && exec "$@"'
STAND_IN = ["unshare", "--mount", "sh", "-c", MOUNT]
# Longest wait for a program that ends or answers, and for a menu before its icon is clicked again.
LEAVE_SECONDS, MENU_SECONDS = 60, 5
# Until a worker that keeps ending is given up.
PROBLEM_SECONDS = 90


@pytest.fixture
def panel() -> Iterator[Panel]:
    """A panel that is there before the app."""
    panel = Panel()
    yield panel
    panel.close()


@pytest.fixture
def app(panel: Panel) -> Iterator[App]:
    """A freshly started app."""
    with App() as app:
        yield app


@pytest.fixture
def icon(panel: Panel, app: App) -> TrayItem:
    """The app's icon, once the house is up and the menu can be used."""
    assert app.process
    icon = panel.wait_for_icon()
    until_up(panel, icon)
    return icon


@pytest.fixture
def battery(tmp_path: Path) -> Path:
    """A battery in a folder that stands in for the system's."""
    battery = tmp_path / "power_supply" / "BAT0"
    battery.mkdir(parents=True)
    facts = {"type": "Battery", "scope": "System", "present": "1", "technology": "Li-ion"}
    facts |= {"energy_full_design": "50000000", "energy_full": "50000000"}
    facts |= {"energy_now": "25000000", "power_now": "10000000", "voltage_now": "12000000"}
    facts |= {"voltage_min_design": "11000000", "status": "Charging", "capacity": "50"}
    for name, value in facts.items():
        (battery / name).write_text(f"{value}\n")
    mounted = subprocess.run([*STAND_IN, str(battery.parent), "true"], check=False)
    if mounted.returncode != 0:
        pytest.skip("SKIPPED (no mounts of one's own): a battery cannot be stood in for")
    return battery


def test_the_menu_opens_with_the_status_and_names_what_can_be_done(
    panel: Panel, icon: TrayItem
) -> None:
    """First a line that cannot be clicked, then the actions in order."""
    first, *actions = panel.menu(icon)
    assert not first.enabled
    assert first.label
    possible = [SHARE, FREE_MEMORY, CHAT, DEVICES, SETTINGS, QUIT]
    assert [entry.label for entry in actions if entry.enabled] == possible
    paused = [PAUSE_HOUR, PAUSE_TOMORROW, RESUME]
    assert [entry.label for entry in actions if entry.label in paused] == paused
    assert share_entry(panel, icon).is_check
    assert not share_entry(panel, icon).checked, "nothing is shared before somebody says so"


def test_a_start_never_shows_a_share_that_nobody_chose(panel: Panel, app: App) -> None:
    """From the first menu on the bus until the house is up, the check is off."""
    assert app.process
    icon = panel.wait_for_icon()
    seen: list[MenuEntry] = []

    def is_up() -> bool:
        first, *entries = panel.menu(icon)
        seen.extend(entry for entry in entries if entry.label == SHARE)
        return first.label.startswith("Not sharing ·")

    wait_until(is_up, "its first status line")
    assert seen and not any(entry.checked for entry in seen)


def test_sharing_is_switched_in_the_menu_and_the_icon_says_so(panel: Panel, icon: TrayItem) -> None:
    """The check mark, the status line and the icon change together, both ways."""
    before = status(panel, icon)
    icon_before = panel.properties(icon).get("IconName")
    panel.click(icon, SHARE)
    wait_until(lambda: share_entry(panel, icon).checked, "the check mark")
    wait_until(lambda: status(panel, icon) != before, "another status line")
    # libayatana gives the icon a new file name for each picture.
    wait_until(lambda: panel.properties(icon).get("IconName") != icon_before, "another icon")
    panel.click(icon, SHARE)
    wait_until(lambda: not share_entry(panel, icon).checked, "no check mark")
    wait_until(lambda: status(panel, icon) == before, "the first status line")


def test_sharing_is_paused_for_a_while_and_goes_on_when_told(panel: Panel, icon: TrayItem) -> None:
    """The check stays, the status line says until when, and only then there is something to end."""
    panel.click(icon, SHARE)
    wait_until(lambda: enabled(panel, icon, PAUSE_HOUR), "something to pause")
    assert not enabled(panel, icon, RESUME)
    for pause in (PAUSE_HOUR, PAUSE_TOMORROW):
        before = status(panel, icon)
        panel.click(icon, pause)
        # The second one says another hour: what is clicked next must not overtake it.
        wait_until(lambda before=before: is_another_pause(panel, icon, before), "the pause")
        assert share_entry(panel, icon).checked, "the choice itself stands"
        wait_until(lambda: enabled(panel, icon, RESUME), "a way back")
    panel.click(icon, RESUME)
    wait_until(lambda: status(panel, icon).startswith("Sharing ·"), "the end of the pause")
    panel.click(icon, FREE_MEMORY)
    wait_until(lambda: status(panel, icon).startswith("Sharing paused until "), "freed memory")


def test_a_program_that_fills_the_screen_pauses_sharing(panel: Panel, icon: TrayItem) -> None:
    """A real window of another program in full screen, as a game is."""
    panel.click(icon, SHARE)
    wait_until(lambda: status(panel, icon).startswith("Sharing ·"), "sharing")
    game = subprocess.Popen(["display", "-title", "game", "-size", "320x200", "xc:black"])
    try:
        wait_until(lambda: wmctrl("-a", "game"), "the other program's window")
        wait_until(lambda: wmctrl("-r", "game", "-b", "add,fullscreen"), "the full screen")
        wait_until(lambda: "fills the screen" in status(panel, icon), "the pause")
        assert share_entry(panel, icon).checked, "the choice itself stands"
    finally:
        game.terminate()
        game.wait(LEAVE_SECONDS)
    wait_until(lambda: status(panel, icon).startswith("Sharing ·"), "the end of the pause")


def test_a_battery_that_is_drained_pauses_sharing_and_is_told_once(
    panel: Panel, battery: Path
) -> None:
    """A laptop that is unplugged: the menu says it, and so does a notice, as nobody looks."""
    board = NoticeBoard(capabilities=("body",))
    try:
        wrapper = [*STAND_IN, str(battery.parent)]
        app = App(words=["--hidden"], wrapper=wrapper)
        settings = app.home / "settings.toml"
        settings.write_text(settings.read_text().replace("on_battery = false", "on_battery = true"))
        with app:
            icon = panel.wait_for_icon()
            until_up(panel, icon)
            panel.click(icon, SHARE)
            wait_until(lambda: status(panel, icon).startswith("Sharing ·"), "sharing")
            (battery / "status").write_text("Discharging\n")
            wait_until(lambda: "paused on battery" in status(panel, icon), "the pause", 30)
            [notice] = wait_until(lambda: board.titled("Sharing is paused"), "the notice")
            assert notice.actions == [], "this desktop takes no clicks"
            assert not windows(), "nobody asked for the window"
            assert len(board.titled("Sharing is paused")) == 1
            (battery / "status").write_text("Charging\n")
            wait_until(lambda: status(panel, icon).startswith("Sharing ·"), "its end", 60)
            # Other computers of the network may have something to tell meanwhile.
            assert len(board.titled("Sharing is paused")) == 1
    finally:
        board.close()


def test_sharing_is_switched_from_outside(panel: Panel, icon: TrayItem, app: App) -> None:
    """`--toggle-share` reaches the app that runs: for desktops without a tray."""
    assert app.start("--toggle-share").wait(LEAVE_SECONDS) == 0
    wait_until(lambda: share_entry(panel, icon).checked, "the check mark")
    assert app.start("--toggle-share").wait(LEAVE_SECONDS) == 0
    wait_until(lambda: not share_entry(panel, icon).checked, "no check mark")


def test_what_cannot_be_done_is_not_shown_as_done_and_the_window_says_why(
    panel: Panel, icon: TrayItem, app: App
) -> None:
    """A menu cannot give a reason: the window comes up for it."""
    settings = app.home / "settings.toml"
    settings.unlink()
    (settings / "in the way").mkdir(parents=True)
    wait_until(windows, "the first window")
    close_windows()
    wait_until(lambda: not windows(), "no window")
    panel.click(icon, SHARE)
    wait_until(windows, "the window")
    wait_until(lambda: not share_entry(panel, icon).checked, "no check mark")


def test_a_closed_window_hides_and_the_tray_brings_it_back(
    panel: Panel, icon: TrayItem, app: App
) -> None:
    """Closing ends nothing; "Open chat", "Household…" and "Settings…" show the window again."""
    panel.click(icon, CHAT)
    wait_until(windows, "the window")
    for label in (CHAT, DEVICES, SETTINGS):
        close_windows()
        wait_until(lambda: not windows(), "no window")
        assert app.is_running()
        panel.click(icon, label)
        wait_until(windows, f"the window after {label!r}")


def test_a_second_start_shows_the_first_one(panel: Panel, icon: TrayItem, app: App) -> None:
    """There is one app a session; the second process ends at once and the window is there."""
    panel.click(icon, CHAT)
    wait_until(windows, "the window")
    close_windows()
    wait_until(lambda: not windows(), "no window")
    assert app.start().wait(LEAVE_SECONDS) == 0
    assert app.is_running()
    wait_until(windows, "the window of the first one")


def test_a_page_that_nobody_looks_at_gives_its_memory_back(panel: Panel) -> None:
    """Started hidden there is no page at all; a closed one ends, and comes back where it was."""
    with App(words=["--hidden", "--keep-page=1"]) as app:
        icon = panel.wait_for_icon()
        until_up(panel, icon)
        assert not app.pages(), "a page that nobody asked for"
        panel.click(icon, CHAT)
        wait_until(windows, "the window")
        wait_until(lambda: app.pages(), "its page")
        close_windows()
        wait_until(lambda: not app.pages(), "the page's end")
        assert app.is_running() and share_entry(panel, icon).enabled
        panel.click(icon, DEVICES)
        wait_until(windows, "a new window")


def test_the_window_comes_back_as_large_as_it_was(panel: Panel, icon: TrayItem, app: App) -> None:
    """Its size outlives the program."""
    assert app.process
    panel.click(icon, CHAT)
    window = wait_until(windows, "the window")[0]
    subprocess.run(["xdotool", "windowsize", window, "700", "600"], check=True)
    wait_until(lambda: width(window) == 700, "the new size")
    panel.click(icon, QUIT)
    assert app.process.wait(LEAVE_SECONDS) == 0
    app.process = app.start()
    window = wait_until(windows, "the window of the next start")[0]
    wait_until(lambda: width(window) == 700, "the size that it had")


def test_each_state_has_a_picture_of_its_own(panel: Panel, icon: TrayItem, app: App) -> None:
    """Idle, sharing, paused, busy and problem, as a panel gets them over the bus."""
    assert app.process
    pictures = {"idle": picture(panel, icon)}

    def until_another(state: str) -> None:
        def is_new() -> bool:
            return picture(panel, icon) not in pictures.values()

        wait_until(is_new, f"a picture for {state}")
        pictures[state] = picture(panel, icon)

    panel.click(icon, SHARE)
    until_another("sharing")
    panel.click(icon, PAUSE_HOUR)
    until_another("paused")
    # Paused or not, what this computer says itself keeps it busy.
    assert "".join(spoken(ask(app, "Once upon a time", tokens=4)))
    wait_until(lambda: picture(panel, icon) == pictures["paused"], "the end of the reply")
    with Slowed(app.workers), ask(app, "A story of the sea", tokens=400):
        until_another("busy")
    # A worker that ends again and again is given up, which needs the owner.
    end = time.monotonic() + PROBLEM_SECONDS
    while picture(panel, icon) in pictures.values():
        assert time.monotonic() < end, "no picture for a problem"
        for worker in app.workers():
            send(worker, signal.SIGKILL)
        fail_or_end(app)
    until_another("problem")
    assert len(set(pictures.values())) == 5, sorted(pictures)


def test_quit_ends_everything(panel: Panel, icon: TrayItem, app: App) -> None:
    """The process leaves by itself, with no worker left behind."""
    assert app.process
    panel.click(icon, QUIT)
    assert app.process.wait(LEAVE_SECONDS) == 0
    search = ["pgrep", "--session", "0", "--full", "inglenook worker"]
    wait_until(lambda: not first_line(search), "no worker")


def test_quit_in_the_middle_of_a_reply_ends_it_and_says_so(
    panel: Panel, icon: TrayItem, app: App
) -> None:
    """Even a worker that hangs does not keep the program; the stream breaks off or ends with an
    error, never with a false `stop`."""
    assert app.process
    assert "".join(spoken(ask(app, "Once upon a time", tokens=4)))
    worker = first_line(["pgrep", "--parent", str(app.process.pid), "--full", "worker --socket"])
    os.kill(int(worker), signal.SIGSTOP)
    # Its head comes at once; the reply waits for the worker.
    with ask(app, "A story of the sea", tokens=400) as stream:
        assert stream.status == 200
        panel.click(icon, QUIT)
        assert app.process.wait(LEAVE_SECONDS) == 0
        said = all_that_came(stream)
    assert '"finish_reason":"stop"' not in said.replace(" ", ""), said
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the worker to be gone too")


def test_a_tray_without_a_panel_shows_the_menu() -> None:
    """Plain X11 trays get an icon too; this is where the picture of the menu comes from."""
    tray = subprocess.Popen(["trayer", "--edge", "top", "--widthtype", "request", "--height", "32"])
    try:
        with App():
            window = wait_until(tray_window, "the tray")
            wait_until(lambda: width(window) > 8, "an icon in the tray")
            before = shown_windows()

            def is_menu_shown() -> bool:
                # An icon that was painted a moment ago may not listen yet: then it is clicked again.
                click = ["xdotool", "mousemove", "--window", window, "12", "12", "click", "3"]
                subprocess.run(click, check=True)
                end = time.monotonic() + MENU_SECONDS
                while not shown_windows() - before and time.monotonic() < end:
                    time.sleep(0.1)
                return bool(shown_windows() - before)

            wait_until(is_menu_shown, "the menu")
            picture_of_still_screen("tray-menu")
    finally:
        tray.terminate()
        tray.wait(LEAVE_SECONDS)


def until_up(panel: Panel, icon: TrayItem) -> None:
    """Waits until the house is up and the menu says so: the entries come one after the other."""
    wait_until(lambda: enabled(panel, icon, SHARE), "the house to be up")
    wait_until(lambda: status(panel, icon).startswith("Not sharing ·"), "its first status line")


def switch_sharing(panel: Panel, icon: TrayItem, app: App, *, on: bool) -> None:
    """Clicks the share entry until it is as wanted.

    Seen twice in some hundred starts on a busy machine: a click that nothing followed for a minute.
    A person clicks again. What the program wrote meanwhile is kept as a warning, to find out why.
    """
    mark = "the check mark" if on else "no check mark"
    for is_last in (False, False, True):
        panel.click(icon, SHARE)
        try:
            wait_until(lambda: share_entry(panel, icon).checked is on, mark)
            return
        except AssertionError:
            if is_last:
                raise
            log = app.home / "inglenook.log"
            said = log.read_text(errors="replace")[-4000:] if log.exists() else "no log"
            warnings.warn(f"a click on {SHARE!r} was lost:\n{said}", stacklevel=2)


def share_entry(panel: Panel, icon: TrayItem) -> MenuEntry:
    """The menu's check entry."""

    def found() -> list[MenuEntry]:
        return [entry for entry in panel.menu(icon) if entry.label == SHARE]

    return wait_until(found, f"{SHARE!r} in the menu")[0]


def is_another_pause(panel: Panel, icon: TrayItem, before: str) -> bool:
    """Whether the status line tells of a pause that it did not tell of before."""
    now = status(panel, icon)
    return now.startswith("Sharing paused until ") and now != before


def picture(panel: Panel, icon: TrayItem) -> bytes:
    """The picture that a panel would draw now. Its file is replaced when the state changes."""

    def read() -> bytes:
        try:
            return Path(panel.properties(icon)["IconName"]).read_bytes()
        except FileNotFoundError:
            return b""

    return wait_until(read, "the icon's file")


def fail_or_end(app: App) -> None:
    """Asks for a word; that there is none is what the test is about."""
    try:
        with ask(app, "Once", tokens=1) as stream:
            all_that_came(stream)
    except urllib.error.HTTPError:
        return


def status(panel: Panel, icon: TrayItem) -> str:
    """The menu's first line."""
    return panel.menu(icon)[0].label


def enabled(panel: Panel, icon: TrayItem, label: str) -> bool:
    """Whether an entry can be chosen now."""
    return any(entry.label == label and entry.enabled for entry in panel.menu(icon))


def wmctrl(*words: str) -> bool:
    """Asks the window manager; false when there is no such window yet."""
    return subprocess.run(["wmctrl", *words], check=False).returncode == 0


def ask(app: App, prompt: str, tokens: int) -> http.client.HTTPResponse:
    """Begins a streamed reply at the app's own port."""
    key = subprocess.run(
        [program(), "--home", str(app.home), "key"], capture_output=True, text=True, check=True
    ).stdout.strip()
    messages = [{"role": "user", "content": prompt}]
    wish = {"model": "ember", "messages": messages, "stream": True, "max_tokens": tokens}
    asked = urllib.request.Request(
        f"http://127.0.0.1:{app.port}/v1/chat/completions",
        data=json.dumps(wish).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    return urllib.request.urlopen(asked, timeout=120)


def all_that_came(stream: http.client.HTTPResponse) -> str:
    """What a stream said until its end, also where it broke off."""
    try:
        return stream.read().decode()
    except http.client.IncompleteRead as broken:
        return broken.partial.decode()


def spoken(stream: http.client.HTTPResponse) -> list[str]:
    """The pieces of a whole streamed reply."""
    with stream:
        lines = stream.read().decode().splitlines()
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    return [json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events]


def tray_window() -> str:
    """The window of the plain tray."""
    return first_line(["xdotool", "search", "--onlyvisible", "--class", "trayer"])


def shown_windows() -> set[str]:
    """The app's windows and menus that are on the display."""
    done = subprocess.run(
        ["xdotool", "search", "--onlyvisible", "--class", "inglenook"],
        capture_output=True,
        text=True,
        check=False,
    )
    return set(done.stdout.split())


def picture_of_still_screen(name: str) -> None:
    """A picture after painting has ended: two in a row that are the same."""
    last = b""

    def is_still() -> bool:
        nonlocal last
        earlier, last = last, picture_of_screen(name).read_bytes()
        return earlier == last

    wait_until(is_still, "painting to end")


def width(window: str) -> int:
    """Width of a window in pixels; 0 when there is no such window."""
    said = subprocess.run(
        ["xdotool", "getwindowgeometry", "--shell", window],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    values = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    return int(values.get("WIDTH", 0))


def first_line(command: list[str]) -> str:
    """The first line that a command prints; empty when there is none."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.split("\n", 1)[0]

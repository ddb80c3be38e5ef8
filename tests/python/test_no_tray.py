"""The real app on a desktop that shows no tray icons, as plain GNOME does: nothing is ever lost there.

There is a session bus and a window manager, and nobody owns the name of a StatusNotifierWatcher.
"""

import re
import subprocess

import pytest

from gui.app import App, Window, close_windows, windows
from gui.sni import wait_until

LEAVE_SECONDS = 60
# What a window manager says of a window: shown, put away where it can be brought back, gone.
SHOWN, MINIMISED = "Normal", "Iconic"


def test_there_is_no_tray_host_here() -> None:
    """The stage of this file: else the others would show nothing."""
    said = subprocess.run(
        ["dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.DBus", "/"]
        + ["org.freedesktop.DBus.NameHasOwner", "string:org.kde.StatusNotifierWatcher"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "boolean false" in said


def test_a_closed_window_is_minimised_and_says_why_and_how_to_quit() -> None:
    """It stays where the desktop lists windows; the note names the keys that end the program."""
    app = App()
    with Window(app) as window:
        window.find("prompt")
        assert not window.all("no-tray")
        [shown] = wait_until(windows, "the window")
        close_windows()
        wait_until(lambda: state(shown) == MINIMISED, "a minimised window")
        note = wait_until(lambda: words(window, "no-tray"), "the note")
        assert "only minimises it" in note and "Ctrl Q" in note
        # A second start brings it back, as a click in the desktop's list of windows does.
        assert app.start().wait(LEAVE_SECONDS) == 0
        wait_until(lambda: state(shown) == SHOWN, "the window again")
        window.find("no-tray")
        window.picture("no-tray")


@pytest.mark.parametrize("again", [False, True])
def test_a_hidden_start_without_a_tray_is_minimised_not_lost(again: bool) -> None:
    """At login the shell may have no tray yet: then the window is there, put away."""
    with App(words=["--hidden"]) as app:
        window = wait_until(minimised, "a minimised window that can be brought back")
        if again:
            assert app.start().wait(LEAVE_SECONDS) == 0
            wait_until(lambda: state(window) == SHOWN, "it shown at a second start")
        # Nobody reads the terminal of a program that the desktop started.
        wait_until(lambda: log(app), "its log on the disk")
        assert app.is_running()


def log(app: App) -> str:
    """What the program wrote down of itself."""
    file = app.home / "inglenook.log"
    return file.read_text() if file.exists() else ""


def state(window: str) -> str:
    """What the window manager says of a window; empty when it knows none of this number."""
    said = subprocess.run(
        ["xprop", "-id", window, "WM_STATE"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"window state: (\w+)", said)
    return found.group(1) if found else ""


def all_windows() -> list[str]:
    """The app's windows that the window manager knows, shown or not."""
    said = subprocess.run(["wmctrl", "-l"], capture_output=True, text=True, check=False).stdout
    return [line.split()[0] for line in said.splitlines() if line.endswith("Inglenook")]


def minimised() -> str | None:
    """A window of the app that is put away. One of a program that ended a moment ago may still be listed."""
    return next((one for one in all_windows() if state(one) == MINIMISED), None)


def words(window: Window, test_id: str) -> str:
    """The words of an element that may be on a page that nobody sees."""
    return "".join(one.get_attribute("textContent") or "" for one in window.all(test_id))

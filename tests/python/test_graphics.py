"""A window that does not come up: tried once more without the graphics card, and remembered.

The process in which WebKit shows the page is killed, as a crash of a driver kills it.
"""

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gui.app import App, windows
from gui.sni import Panel, wait_until
from nodes import is_open, program

SAFE = {"WEBKIT_DISABLE_DMABUF_RENDERER", "WEBKIT_DISABLE_COMPOSITING_MODE"}
START_SECONDS = 90
# A page that runs scripts has more; one that has just been started has two or three.
AT_WORK_THREADS = 8


@pytest.fixture
def panel() -> Iterator[Panel]:
    """A panel that is there before the app."""
    panel = Panel()
    yield panel
    panel.close()


def test_a_page_that_keeps_ending_is_tried_once_without_the_graphics_card(panel: Panel) -> None:
    """In the same process, with a new program; the log and the settings say so; it is tried once."""
    with App() as app:
        assert app.process
        number = app.process.pid
        wait_until(lambda: port_answers(app), "the house", START_SECONDS)
        assert not SAFE & variables(number)
        first = kill_page(app, set())
        kill_page(app, first)
        wait_until(lambda: SAFE <= variables(number), "safe graphics", START_SECONDS)
        assert app.is_running(), "it took its own place"
        wait_until(lambda: "safe_graphics = true" in settings(app), "the memory of it", START_SECONDS)
        wait_until(windows, "the window", START_SECONDS)
        wait_until(lambda: port_answers(app), "the house", START_SECONDS)
        # Without the card there is nothing more to try: the window ends, and all else goes on.
        second = kill_page(app, set())
        kill_page(app, second)
        wait_until(lambda: not windows(), "the end of the blank window", START_SECONDS)
        assert app.is_running() and port_answers(app)
        starts = re.findall(r"starting anew with safe graphics", app.log.read_text(errors="replace"))
        assert len(starts) == 1, starts


def test_what_was_remembered_is_used_at_the_next_start_until_it_is_taken_back(panel: Panel) -> None:
    """By hand with `--safe-graphics`, then from the settings, then not any more."""
    app = App(words=["--safe-graphics"])
    with app:
        assert app.process
        wait_until(lambda: "safe_graphics = true" in settings(app), "the memory", START_SECONDS)
        assert SAFE <= variables(app.process.pid)
        app.process.terminate()
        assert app.process.wait(60) == 0
        app.process = app.start()
        wait_until(windows, "the window", START_SECONDS)
        assert SAFE <= variables(app.process.pid)
        app.process.terminate()
        assert app.process.wait(60) == 0
        file = app.home / "settings.toml"
        file.write_text(settings(app).replace("safe_graphics = true", "safe_graphics = false"))
        app.process = app.start()
        wait_until(windows, "the window", START_SECONDS)
        assert not SAFE & variables(app.process.pid)


def kill_page(app: App, before: set[str]) -> set[str]:
    """Kills the process of the page, once there is another than those of `before`; gives all numbers.

    WebKit takes the whole program down when a process ends that has not yet said its number, so it
    gets as far as running scripts first.
    """

    def at_work() -> set[str]:
        return {number for number in app.pages() - before if threads(number) >= AT_WORK_THREADS}

    found = wait_until(at_work, "a page", START_SECONDS)
    for number in found:
        os.kill(int(number), signal.SIGKILL)
    return before | found


def threads(process: str) -> int:
    """How many threads a process has; none when it is gone."""
    try:
        return len(os.listdir(f"/proc/{process}/task"))
    except FileNotFoundError:
        return 0


def variables(process: int) -> set[str]:
    """The names of a process's environment."""
    raw = Path(f"/proc/{process}/environ").read_bytes()
    return {entry.split(b"=", 1)[0].decode() for entry in raw.split(b"\0") if entry}


def settings(app: App) -> str:
    """The settings as they are on the disk."""
    return (app.home / "settings.toml").read_text()


def port_answers(app: App) -> bool:
    """Whether the app's own port serves its models."""
    # Asked before there is a node, `nook` would begin one of its own.
    if not is_open(app.port):
        return False
    asked = subprocess.run(
        [program(), "--home", str(app.home), "key"], capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        return False
    request = urllib.request.Request(
        f"http://127.0.0.1:{app.port}/v1/models",
        headers={"Authorization": f"Bearer {asked.stdout.strip()}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(json.load(answer)["data"])
    except OSError:
        return False

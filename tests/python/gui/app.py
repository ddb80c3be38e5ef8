"""The tray app under test: started bare for the tray, or through WebDriver for its windows.

Programs are found through `INGLENOOK_BIN`; pictures and logs go to the folder `OUT`. Element ids
are the `data-testid`s that the pages promise; [Window] knows nothing else of their markup.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchFrameException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.options import ArgOptions
from selenium.webdriver.remote.webelement import WebElement

from gui import logs
from gui.sni import wait_until
from nodes import free_port, is_open, processes, write_settings

LEAVE_SECONDS = 60
# Longest wait for the answer of a node.
ANSWER_SECONDS = 60
# Between two looks at the place of an element.
STILL_SECONDS = 0.05
WINDOW_TITLE = "Inglenook"
# What stands in the settings, one section at a time.
SECTIONS = ["settings", "sharing", "privacy", "port", "checks"]
# What is said of an element that is not there any more, because it was painted anew or, as another
# language is, loaded anew with its whole page.
GONE = (NoSuchFrameException, StaleElementReferenceException)
# What an element says that is gone, or still on its way to its place.
NOT_YET = (ElementClickInterceptedException, ElementNotInteractableException, *GONE)
Found = TypeVar("Found")


class App:
    """The app as a desktop starts it."""

    def __init__(
        self,
        name: str = "Kitchen laptop",
        words: Sequence[str] = (),
        wrapper: Sequence[str] = (),
        installed: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`words`: what the program is started with; `wrapper`: a program that starts it; `installed`: its
        file, where it is not the one under test itself; `variables`: more of its environment."""
        self._words = words
        self._wrapper = wrapper
        self._installed = installed
        self._variables = variables or {}
        self._folder = tempfile.TemporaryDirectory(prefix="inglenook-app-")
        self.home = Path(self._folder.name) / "home"
        self.port = free_port()
        write_settings(self.home, name, port=self.port)
        # Chats always take the likeliest word here, so that a reply can be compared.
        with (self.home / "settings.toml").open("a") as settings:
            settings.write("\n[chat]\ntemperature = 0.0\n")
        self.log = logs.new_log(out())
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> "App":
        self.process = self.start(*self._words)
        logs.begin(self.log)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        logs.end(self.log, error)
        wait_until(self._is_removed, "whoever writes to its folder to end", LEAVE_SECONDS)

    def _is_removed(self) -> bool:
        """Removes its folder. A program that another one started may write there to its end."""
        try:
            self._folder.cleanup()
        except OSError:
            return False
        return True

    def start(self, *words: str) -> subprocess.Popen:
        """Starts the program; a second time while it runs, as a second click on its icon does."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self._wrapper, str(self._installed or program()), *words],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def environment(self) -> dict[str, str]:
        """The environment of the app: its own home."""
        own = {"INGLENOOK_HOME": str(self.home), "XDG_CONFIG_HOME": str(self.config)}
        return {**os.environ, **own, **self._variables}

    def call(self, action: str) -> Any:
        """Asks the node of the only app that runs, as `nook` in a terminal does."""
        sockets = Path(os.environ["XDG_RUNTIME_DIR"]).glob("inglenook-*/control.sock")
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(ANSWER_SECONDS)
            wire.connect(str(next(sockets, "no app has a socket yet")))
            wire.sendall(json.dumps({"call": {"action": action}}).encode() + b"\n")
            answer = json.loads(wire.makefile().readline())
        assert "response" in answer, answer
        return answer["response"][action]

    def view(self) -> dict[str, Any]:
        """What the app shows of itself and its household."""
        return self.call("view")

    @property
    def config(self) -> Path:
        """The folder in which programs of this person keep their settings, and the desktop its own."""
        return Path(self._folder.name) / "config"

    @property
    def login_entry(self) -> Path:
        """What the desktop reads at login; there while the app is to start then."""
        return self.config / "autostart" / "Inglenook.desktop"

    def workers(self) -> list[int]:
        """Its worker processes, whoever started the app."""
        home = f"INGLENOOK_HOME={self.home}\0".encode()
        return [pid for pid in processes() if is_worker(pid) and home in environment_of(pid)]

    def programs(self) -> list[int]:
        """Processes of the app with this home, whoever started them."""
        home = f"INGLENOOK_HOME={self.home}\0".encode()
        return [pid for pid in processes() if is_program(pid) and home in environment_of(pid)]

    def leave(self) -> None:
        """Returns when no process of the app is left: another one would hand its start over to it."""
        end = time.monotonic() + LEAVE_SECONDS
        while left := self.programs():
            if time.monotonic() > end:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def pages(self) -> set[str]:
        """Processes in which WebKit shows its pages."""
        assert self.process
        done = subprocess.run(
            ["pgrep", "--parent", str(self.process.pid), "WebKitWeb"],
            capture_output=True,
            text=True,
            check=False,
        )
        return set(done.stdout.split())

    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self.process is not None and self.process.poll() is None


WATCH = """
const [stopAtOnce] = arguments;
const replies = () => document.querySelectorAll('[data-testid="reply"]');
const before = replies().length;
const texts = [];
const see = () => {
  const newest = [...replies()].slice(before).pop();
  const phase = newest?.dataset.phase;
  if (!newest || phase === "reading") return;
  const text = (newest.querySelector('[data-testid="reply-text"]')?.textContent ?? "").trim();
  if (text && texts.at(-1) !== text) texts.push(text);
  if (stopAtOnce && text && phase === "writing") document.querySelector('[data-testid="stop"]')?.click();
};
const observer = new MutationObserver(see);
observer.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
window.replyWatch = {texts, observer};
"""

WATCHED = """
const {texts, observer} = window.replyWatch;
observer.disconnect();
return texts;
"""


class Window:
    """The app's window, driven through WebDriver. WebKitWebDriver starts the app itself."""

    def __init__(self, app: App) -> None:
        self.app = app

    def __enter__(self) -> "Window":
        port = free_port()
        # Without this variable the app opens a window that WebDriver may not drive.
        environment = dict(self.app.environment(), TAURI_WEBVIEW_AUTOMATION="true")
        # The app writes where its driver writes.
        with self.app.log.open("ab") as log:
            self._driver_process = subprocess.Popen(
                ["WebKitWebDriver", f"--port={port}", "--host=127.0.0.1"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        logs.begin(self.app.log)
        wait_until(lambda: is_open(port), "WebKitWebDriver")
        options = ArgOptions()
        options.set_capability("browserName", "wry")
        options.set_capability("webkitgtk:browserOptions", {"binary": program(), "args": []})
        self.driver = webdriver.Remote(f"http://127.0.0.1:{port}", options=options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error:
                self.picture("failed")
            self.driver.quit()
        finally:
            self._driver_process.terminate()
            try:
                self._driver_process.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                self._driver_process.kill()
                self._driver_process.wait()
            # Whoever drives the app ends it, and waits for nothing.
            self.app.leave()
            logs.end(self.app.log, error)

    def all(self, test_id: str) -> list[WebElement]:
        """All elements with this `data-testid`, in the order of the page."""
        return self.driver.find_elements(By.CSS_SELECTOR, f'[data-testid="{test_id}"]')

    def find(self, test_id: str) -> WebElement:
        """The one visible element with this `data-testid`; waits for it."""

        def visible() -> list[WebElement]:
            try:
                return [element for element in self.all(test_id) if element.is_displayed()]
            except GONE:
                return []

        return wait_until(visible, f"{test_id} on the page")[0]

    def done(self, work: Callable[[], Found]) -> Found:
        """Does something to the page; again where it was painted anew in the middle of it."""
        results: list[Found] = []

        def is_done() -> bool:
            try:
                results.append(work())
            except NOT_YET:
                return False
            return True

        wait_until(is_done, "the page to keep still")
        return results[0]

    def click(self, test_id: str) -> None:
        """Clicks an element once it is in view and stands still: the driver clicks where it was, and
        brings nothing into view that lies in a part of the page that scrolls."""

        def click() -> None:
            element = self.find(test_id)
            self.driver.execute_script(
                "arguments[0].scrollIntoView({ block: 'nearest', behavior: 'instant' })", element
            )
            still(element).click()

        self.done(click)

    def go_to(self, page: str) -> None:
        """To a place of the side bar, or to a section of the settings: the one way to a page."""
        self.click("nav-settings" if page in SECTIONS else f"nav-{page}")
        if page in SECTIONS:
            self.click(f"section-{page}")

    def pair(self, address: str, code: str) -> None:
        """In the dialog that adds a device: pairs with one that shows a code at an address."""
        self.click("type-here")
        self.click("not-listed")
        self.type("type-address", address)
        # It goes on by itself after the last digit.
        self.type("type-code", code)
        self.find("join-done")

    def leave_dialog(self) -> None:
        """Closes the dialog that is open."""
        self.click("dialog-close")
        wait_until(lambda: not self.all("dialog-close"), "the end of the dialog")

    def leave_model(self) -> None:
        """Leaves the question about a model so that none is downloaded."""
        self.find("first-model")
        self.click("first-skip" if self.all("first-skip") else "first-next")
        self.find("first-share")

    def text(self, test_id: str) -> str:
        """What stands there now."""
        return self.done(lambda: self.find(test_id).text.strip())

    def until_text(self, test_id: str, wanted: str) -> None:
        """Waits until these very words stand there."""
        wait_until(lambda: self.text(test_id) == wanted, f"{wanted!r} in {test_id}")

    def value(self, test_id: str) -> str:
        """What a field holds."""
        return self.done(lambda: self.find(test_id).get_attribute("value") or "")

    def type(self, test_id: str, text: str, *keys: str) -> None:
        """Types into a field that is emptied before."""

        def typed() -> None:
            field = self.find(test_id)
            field.clear()
            # WebKit's driver refuses to type nothing.
            if text or keys:
                field.send_keys(text, *keys)

        self.done(typed)

    def watch_reply(self, stop_at_once: bool = False) -> None:
        """From now on the page itself notes every text that the newest reply shows.

        A fast reply is over before a driver outside the page has looked twice. With `stop_at_once`
        the page also presses Stop as soon as a reply shows its first word.
        """
        self.driver.execute_script(WATCH, stop_at_once)

    def watched_reply(self) -> list[str]:
        """The texts that were noted, oldest first; ends the watching."""
        return self.driver.execute_script(WATCHED)

    def picture(self, name: str) -> Path:
        """A picture of the page as it is painted now; the last frame is older, so two are awaited."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)))"
        )
        path = out() / f"{name}.png"
        assert self.driver.save_screenshot(str(path)), path
        return path


def still(element: WebElement) -> WebElement:
    """The element, once two looks have found it at the same place."""

    def stands() -> bool:
        before = element.rect
        time.sleep(STILL_SECONDS)
        return element.rect == before

    wait_until(stands, "an element to stand still")
    return element


def windows() -> list[str]:
    """Ids of the app's visible windows on the display."""
    done = subprocess.run(
        ["xdotool", "search", "--onlyvisible", "--name", f"^{WINDOW_TITLE}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


def close_windows() -> None:
    """Closes the visible windows as a person does: by asking, not by force."""
    for window in windows():
        subprocess.run(["wmctrl", "-i", "-c", hex(int(window))], check=True)


def is_worker(pid: int) -> bool:
    """Whether a process is a worker of some node."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"worker" in words and b"--socket" in words


def is_program(pid: int) -> bool:
    """Whether a process is the tray app under test, or a worker of it."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", program())
    except OSError:
        return False


def environment_of(pid: int) -> bytes:
    """The variables with which a process was started."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def picture_of_screen(name: str) -> Path:
    """A picture of the whole display."""
    path = out() / f"{name}.png"
    subprocess.run(["import", "-window", "root", str(path)], check=True, timeout=30)
    return path


def out() -> Path:
    """Where pictures and logs go."""
    folder = Path(os.environ.get("OUT", tempfile.gettempdir())) / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def program() -> str:
    """The tray app under test."""
    found = os.environ.get("INGLENOOK_BIN")
    assert found, "set INGLENOOK_BIN to the tray app; `cargo xtask test` does"
    return found

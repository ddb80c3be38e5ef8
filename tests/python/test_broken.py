"""The real app after a fault: its node ends by a panic, and the family is told and asked.

The fault is ordered through a file, which only builds with debug assertions and the feature
`test-panics` obey; `cargo xtask test` builds such ones.
"""

import json
import subprocess
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from gui.app import App, Window, close_windows, windows
from gui.notices import NoticeBoard
from gui.sni import Panel, TrayItem, wait_until
from nodes import is_open, program

CHAT, RESTART, QUIT = "Open chat", "Restart Inglenook", "Quit"
STOPPED = "Inglenook stopped because of a fault"
STOPPED_GERMAN = "Inglenook ist wegen eines Fehlers stehen geblieben"
START_SECONDS, LEAVE_SECONDS = 90, 60


class Breakable(App):
    """An app whose node panics on order."""

    @property
    def order(self) -> str:
        """The file that orders it."""
        return str(self.home.parent / "panic-order")

    def environment(self) -> dict[str, str]:
        """The usual one, and where the order is looked for."""
        return dict(super().environment(), INGLENOOK_TEST_PANIC=self.order)

    def panic(self) -> None:
        """The event loop of its node panics now."""
        draft = self.home.parent / "panic-draft"
        draft.write_text("loop")
        order = draft.rename(self.order)
        wait_until(lambda: not order.exists(), "an app that obeys: is it a debug build?")

    def ask(self, *words: str) -> subprocess.CompletedProcess:
        """Asks the app's own node, as its owner does in a terminal."""
        return subprocess.run(
            [program(), "--home", str(self.home), *words],
            capture_output=True,
            text=True,
            check=False,
        )

    def answers(self) -> bool:
        """Whether its node is there."""
        return self.ask("share", "--json").returncode == 0


@pytest.fixture
def panel() -> Iterator[Panel]:
    """A panel that is there before the app."""
    panel = Panel()
    yield panel
    panel.close()


@pytest.fixture
def board() -> Iterator[NoticeBoard]:
    """A desktop with notices."""
    board = NoticeBoard()
    yield board
    board.close()


def test_the_tray_and_a_notice_say_it_where_no_window_is(panel: Panel, board: NoticeBoard) -> None:
    """A click on the notice opens the window; the tray starts the program anew, and all is there."""
    with Breakable(words=["--hidden"]) as app:
        assert app.process
        icon = up(panel, app)
        panel.click(icon, "Share this computer")
        wait_until(lambda: is_sharing(app), "sharing")
        app.panic()
        wait_until(lambda: labels(panel, icon)[0] == STOPPED, "the status line")
        wait_until(lambda: RESTART in labels(panel, icon), "the way to restart")
        possible = {entry.label for entry in panel.menu(icon) if entry.enabled}
        assert possible == {RESTART, CHAT, QUIT}
        assert not any(entry.checked for entry in panel.menu(icon)), "nothing is lent any more"
        [notice] = wait_until(lambda: board.titled(STOPPED), "the notice")
        assert "are saved" in notice.text
        assert not windows(), "nobody asked for the window"
        assert not app.answers() and not is_open(app.port), "no part of the node goes on"
        board.click(notice)
        wait_until(windows, "the window")
        close_windows()
        wait_until(lambda: not windows(), "no window")
        assert app.is_running(), "it waits for an answer in the tray"
        panel.click(icon, RESTART)
        wait_until(app.answers, "the new node", START_SECONDS)
        assert app.is_running(), "the new program took the place of the old one"
        assert is_sharing(app), "what was chosen before is there"
        wait_until(windows, "its window", START_SECONDS)
        assert app.start().wait(LEAVE_SECONDS) == 0, "it is the one program of this session"


def test_quit_ends_a_program_whose_node_is_gone(panel: Panel) -> None:
    """From the tray, as ever."""
    with Breakable(words=["--hidden"]) as app:
        assert app.process
        icon = up(panel, app)
        app.panic()
        wait_until(lambda: labels(panel, icon)[0] == STOPPED, "the status line")
        panel.click(icon, QUIT)
        assert app.process.wait(LEAVE_SECONDS) == 0


def test_a_node_that_was_asked_to_leave_is_no_fault(panel: Panel, board: NoticeBoard) -> None:
    """The program leaves with it, and says nothing."""
    with Breakable(words=["--hidden"]) as app:
        assert app.process
        up(panel, app)
        app.process.terminate()
        assert app.process.wait(LEAVE_SECONDS) == 0
        assert not board.titled(STOPPED)


# Last: WebDriver may leave the program behind, and there is one program a session.
def test_the_window_says_it_in_place_of_every_page(panel: Panel) -> None:
    """In the middle of a reply, and again after the page was loaded anew, in German too."""
    app = Breakable()
    with Window(app) as window:
        window.find("prompt")
        window.find("first-next")  # The house is up.
        window.type("prompt", "Once upon a time", Keys.ENTER)
        window.find("reply-text")
        app.panic()
        said = window.text("stopped")
        for part in (STOPPED, "chats and settings are saved", "inglenook.log", RESTART, QUIT):
            assert part in said, f"no {part!r} in: {said}"
        assert not window.all("prompt") and not window.all("nav-chat")
        window.picture("stopped")
        window.driver.refresh()
        assert STOPPED in window.text("stopped")
        window.driver.execute_script("localStorage.setItem('inglenook.language', 'de')")
        window.driver.refresh()
        assert STOPPED_GERMAN in window.text("stopped")
        window.picture("stopped-german")
        log = (app.home / "inglenook.log").read_text()
        assert "the node has ended because of a fault" in log
        assert "Once upon a time" not in log


def up(panel: Panel, app: Breakable) -> TrayItem:
    """The icon of an app whose node is up, so that its menu can be used."""
    icon = panel.wait_for_icon()
    wait_until(app.answers, "the node", START_SECONDS)
    wait_until(lambda: "Not sharing" in labels(panel, icon)[0], "its first status line")
    return icon


def labels(panel: Panel, icon: TrayItem) -> list[str]:
    """What the tray's menu says."""
    return [entry.label for entry in panel.menu(icon)]


def is_sharing(app: Breakable) -> bool:
    """Whether the node says that it shares."""
    return bool(json.loads(app.ask("share", "--json").stdout)["on"])

"""Notices through the desktop, in the language of the window, over the real session bus.

A window in front, driven through WebDriver, and other real devices: what is worth a notice is shown
once, leads to its page, and is not said to somebody who sees it already.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from gui.app import App, Window
from gui.notices import NoticeBoard
from gui.sni import Panel, wait_until
from nodes import Node, program

JOIN, MODEL = "A device wants to join", "A model is ready"
JOIN_GERMAN = "Ein Gerät möchte dazukommen"
SEEN_SECONDS = 60
FIXTURES = Path(__file__).parents[1] / "fixtures"
SHARE = "Share this computer"


@dataclass
class Story:
    """Everything that the steps share."""

    panel: Panel
    board: NoticeBoard
    window: Window
    app: App
    others: list[Node] = field(default_factory=list)


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """The window of an app on a desktop with notices, and four other devices."""
    panel, board = Panel(), NoticeBoard()
    app = App("Kitchen laptop")
    with ExitStack() as stack:
        names = ("Study PC", "Attic <b>PC</b>", "Hall PC", "Loft PC")
        others = [stack.enter_context(Node(name)) for name in names]
        with Window(app) as window:
            window.find("prompt")
            window.find("first-next")  # The house is up.
            yield Story(panel, board, window, app, others)
    board.close()
    panel.close()


def test_a_device_that_shows_a_code_is_told_and_a_click_leads_to_it(story: Story) -> None:
    """Whoever looks at the chat is told, and comes to the devices."""
    story.window.go_to("chat")
    code = story.others[0].show_code()
    [notice] = wait_until(lambda: story.board.titled(JOIN), "the notice", SEEN_SECONDS)
    assert notice.program == "Inglenook"
    assert notice.text == "Study PC shows a pairing code. Type it here, under Household."
    assert story.window.all("prompt"), "nobody is led away before the click"
    story.board.click(notice)
    story.window.find("add-device")
    code.cancel()


def test_whoever_sees_it_is_not_told(story: Story) -> None:
    """The page of devices is in front, and the device shows its code there. Notices come in order, so
    the next one shows that there was none."""
    before = len(story.board.notices)
    story.window.go_to("devices")
    seen_one = story.others[1].show_code()
    wait_until(lambda: "shows a code now" in seen(story, "Attic"), "the device", SEEN_SECONDS)
    story.window.go_to("chat")
    story.window.find("prompt")
    told_one = story.others[2].show_code()
    wait_until(lambda: joining(story, before, "Hall PC"), "the next notice", SEEN_SECONDS)
    assert [text.split(" shows")[0] for text in texts(story, before)] == ["Hall PC"]
    seen_one.cancel()
    told_one.cancel()


def test_a_model_that_was_added_is_told(story: Story) -> None:
    """However it came: here from a terminal."""
    file = FIXTURES / "stories260K" / "stories260K-q8_0.gguf"
    story.window.go_to("chat")
    told = ask(story.app, "models", "import", str(file))
    assert told
    [notice] = wait_until(lambda: story.board.titled(MODEL), "the notice", SEEN_SECONDS)
    assert "can be used now" in notice.text
    story.board.click(notice)
    wait_until(lambda: heading(story) == "Models", "the page of models")


def test_tray_and_notices_speak_the_language_of_the_window(story: Story) -> None:
    """German is chosen in the window; the menu follows at once, and what comes next is German."""
    icon = story.panel.wait_for_icon()
    assert SHARE in labels(story)
    story.window.go_to("settings")
    Select(story.window.find("language")).select_by_value("de")
    wait_until(lambda: "Diesen Computer teilen" in labels(story), "a German menu")
    assert {"Gespräch öffnen", "Haushalt…", "Beenden"} <= set(labels(story))
    assert story.panel.menu(icon)[0].label == "Teilt nicht · kein anderes Gerät · untätig"
    story.panel.click(icon, "Diesen Computer teilen")
    wait_until(lambda: labels(story)[0].startswith("Teilt ·"), "sharing, in German")
    story.panel.click(icon, "Eine Stunde nicht teilen")
    wait_until(lambda: labels(story)[0].startswith("Teilen pausiert bis "), "the pause, in German")
    story.panel.click(icon, "Teilen fortsetzen")
    story.window.find("prompt")
    code = story.others[3].show_code()
    [notice] = wait_until(lambda: story.board.titled(JOIN_GERMAN), "the notice", SEEN_SECONDS)
    assert notice.text.startswith("Loft PC zeigt einen Kopplungscode.")
    code.cancel()


def test_notices_can_be_switched_off(story: Story) -> None:
    """Then nothing is said of what happens while the chat is in front; switched on again, only what
    happens from then on."""
    before = len(story.board.notices)
    switch_notices(story, to="false")
    with Node("Cellar PC") as quiet, Node("Garden PC") as told:
        code = quiet.show_code()
        wait_until(lambda: shows_code(story.app, "Cellar PC"), "the device", SEEN_SECONDS)
        code.cancel()
        switch_notices(story, to="true")
        code = told.show_code()
        wait_until(lambda: joining(story, before, "Garden PC"), "the next notice", SEEN_SECONDS)
        code.cancel()
    assert [text.split(" zeigt")[0] for text in texts(story, before)] == ["Garden PC"]


def switch_notices(story: Story, to: str) -> None:
    """Switches notices in the settings, and goes back to the chat."""
    story.window.go_to("settings")
    story.window.click("notifications")

    def is_switched() -> bool:
        switch = story.window.find("notifications")
        return switch.get_attribute("aria-checked") == to

    wait_until(lambda: story.window.done(is_switched), "the switch")
    story.window.go_to("chat")
    story.window.find("prompt")


def joining(story: Story, before: int, name: str) -> bool:
    """Whether a notice after the first `before` tells of this device."""
    return any(text.startswith(name) for text in texts(story, before))


def texts(story: Story, before: int) -> list[str]:
    """What the notices after the first `before` say."""
    return [notice.text for notice in story.board.notices[before:]]


def shows_code(app: App, name: str) -> bool:
    """Whether the app's node knows that a device shows a code."""
    devices = json.loads(ask(app, "devices", "--json"))
    return any(device["name"] == name and device["pairing"] for device in devices)


def heading(story: Story) -> str:
    """The headline of the page that shows; empty while that is loaded."""
    try:
        return story.window.driver.find_element(By.CSS_SELECTOR, "main h1").text
    except (NoSuchElementException, StaleElementReferenceException):
        return ""


def seen(story: Story, name: str) -> str:
    """What the page of devices says of one that is not paired; empty while it is not there."""
    try:
        rows = [row.text for row in story.window.all("seen-device")]
    except StaleElementReferenceException:
        return ""
    return next((text for text in rows if name in text), "")


def labels(story: Story) -> list[str]:
    """What the tray's menu says."""
    return [entry.label for entry in story.panel.menu(story.panel.wait_for_icon())]


def ask(app: App, *words: str) -> str:
    """Asks the app's own node, as its owner does in a terminal."""
    done = subprocess.run(
        [program(), "--home", str(app.home), *words], capture_output=True, text=True, check=True
    )
    return done.stdout

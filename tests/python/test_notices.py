"""Notices through the desktop, in the language of the window, over the real session bus.

A window in front, driven through WebDriver, and other real devices: what is worth a notice is shown
once, leads to its page, and is not said to somebody who sees it already.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from gui.app import App, Window
from gui.notices import NoticeBoard
from gui.sni import Panel, wait_until
from nodes import Node, program

JOIN, MODEL = "A device wants to join", "A model is ready"
JOIN_GERMAN = "Ein Gerät möchte dazukommen"
SEEN_SECONDS = 60
FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
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
    """The window of an app on a desktop with notices, and three other devices."""
    panel, board = Panel(), NoticeBoard()
    app = App("Kitchen laptop")
    with Node("Study PC") as first, Node("Attic <b>PC</b>") as second, Node("Hall PC") as third:
        with Window(app) as window:
            window.find("prompt")
            window.find("first-next")  # The house is up.
            yield Story(panel, board, window, app, [first, second, third])
    board.close()
    panel.close()


def test_a_device_that_shows_a_code_is_told_and_a_click_leads_to_it(story: Story) -> None:
    """Whoever looks at the chat is told, and comes to the devices."""
    story.window.click("nav-chat")
    code = story.others[0].show_code()
    [notice] = wait_until(lambda: story.board.titled(JOIN), "the notice", SEEN_SECONDS)
    assert notice.program == "Inglenook"
    assert notice.text == "Study PC shows a pairing code. Type it here, under Devices."
    assert story.window.all("prompt"), "nobody is led away before the click"
    story.board.click(notice)
    wait_until(lambda: heading(story) == "Devices", "the page of devices")
    code.cancel()


def test_whoever_sees_it_is_not_told(story: Story) -> None:
    """The page of devices is in front, and the device shows its code there."""
    before = len(story.board.notices)
    story.window.click("nav-devices")
    code = story.others[1].show_code()
    wait_until(lambda: "shows a code now" in seen(story, "Attic"), "the device", SEEN_SECONDS)
    assert len(story.board.notices) == before
    code.cancel()


def test_a_model_that_was_added_is_told(story: Story) -> None:
    """However it came: here from a terminal."""
    file = FIXTURES / "stories260K" / "stories260K-q8_0.gguf"
    if not file.exists():
        pytest.skip("SKIPPED (no fixtures): test_a_model_that_was_added_is_told")
    story.window.click("nav-chat")
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
    story.window.click("nav-settings")
    Select(story.window.find("language")).select_by_value("de")
    wait_until(lambda: "Diesen Computer teilen" in labels(story), "a German menu")
    assert {"Gespräch öffnen", "Geräte…", "Beenden"} <= set(labels(story))
    assert story.panel.menu(icon)[0].label == "Teilt nicht · kein anderes Gerät · untätig"
    story.panel.click(icon, "Diesen Computer teilen")
    wait_until(lambda: labels(story)[0].startswith("Teilt ·"), "sharing, in German")
    story.panel.click(icon, "Eine Stunde nicht teilen")
    wait_until(lambda: labels(story)[0].startswith("Teilen pausiert bis "), "the pause, in German")
    story.panel.click(icon, "Weiter teilen")
    story.window.find("prompt")
    code = story.others[2].show_code()
    [notice] = wait_until(lambda: story.board.titled(JOIN_GERMAN), "the notice", SEEN_SECONDS)
    assert notice.text.startswith("Hall PC zeigt einen Kopplungscode.")
    code.cancel()


def test_notices_can_be_switched_off(story: Story) -> None:
    """Then nothing is said, whatever happens."""
    story.window.click("nav-settings")
    story.window.click("notifications")
    wait_until(
        lambda: story.window.find("notifications").get_attribute("aria-checked") == "false",
        "the switch",
    )
    before = len(story.board.notices)
    story.window.click("nav-chat")
    with Node("Cellar PC") as late:
        code = late.show_code()
        wait_until(lambda: "Cellar PC" in ask(story.app, "devices"), "the device", SEEN_SECONDS)
        story.window.click("nav-devices")
        wait_until(lambda: seen(story, "Cellar"), "the device on the page", SEEN_SECONDS)
        code.cancel()
    assert len(story.board.notices) == before


def heading(story: Story) -> str:
    """The headline of the page that shows."""
    try:
        return story.window.driver.find_element(By.CSS_SELECTOR, "main h1").text
    except StaleElementReferenceException:
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

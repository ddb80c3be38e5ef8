"""The real window against two other real devices: pair, trust, share, ask, watch the route.

One long story in the order in which a person lives it, in one window; each step is a test and the
later ones stand on the earlier (`--exitfirst` ends the story where it breaks).
"""

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from gui.app import App, Window, picture_of_screen
from gui.sni import Panel, wait_until
from nodes import Node, Slowed, program

ME, FIRST, SECOND = "Kitchen laptop", "Study PC", "Attic PC"
# Layers that each helper offers; what lies outside stays with the asking device.
FIRST_LAYERS, SECOND_LAYERS = "1-2", "3-4"
PROMPT = "Once upon a time"
LONG_PROMPT = "Tell me a very long story about every room of the house."
REPLY_SECONDS = 120
OFFER_SECONDS = 120


@dataclass
class Story:
    """Everything that the steps share."""

    panel: Panel
    window: Window
    app: App
    helpers: list[Node] = field(default_factory=list)


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Two helpers, a panel, and the window."""
    panel = Panel()
    app = App(ME)
    with (
        Node(FIRST, layers=FIRST_LAYERS) as first,
        Node(SECOND, layers=SECOND_LAYERS) as second,
    ):
        with Window(app) as window:
            yield Story(panel, window, app, [first, second])
    panel.close()


def test_a_first_prompt_is_answered_here_alone(story: Story) -> None:
    """Nothing downloaded, nobody paired: the built-in model answers.

    How many pieces are painted is not asked: the model may be done before the page has drawn its
    first frame. That words are shown while others are still to come is what stopping shows, next.
    """
    texts = ask(story, PROMPT)
    assert texts and texts[-1]
    assert all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:], strict=False))
    assert FIRST not in route(story) and SECOND not in route(story)
    story.window.picture("chat-alone")


def test_a_reply_can_be_stopped(story: Story) -> None:
    """What was said stays; the field is ready again."""
    story.window.go_to("chat")
    before = len(story.window.all("reply"))
    story.window.type("prompt", LONG_PROMPT)
    story.window.watch_reply(stop_at_once=True)
    # Or the reply might be told to its end before the page has painted its first word.
    with Slowed(story.app.workers):
        story.window.click("send")
        wait_until(lambda: len(story.window.all("reply")) > before, "a reply", REPLY_SECONDS)
        wait_until(lambda: last_phase(story) in ("cut", "finished"), "its end", REPLY_SECONDS)
    assert story.window.watched_reply(), "nothing was said before it was stopped"
    assert last_phase(story) == "cut"
    story.window.find("send")
    said = last_reply(story)
    assert said
    story.window.picture("chat-stopped")
    assert last_reply(story) == said, "it went on after it was stopped"


def test_the_window_types_a_code_of_another_device(story: Story) -> None:
    """The other device shows a code and an address; both are typed here."""
    first = story.helpers[0]
    shown = first.show_code()
    story.window.go_to("devices")
    story.window.click("add-device")
    story.window.pair(shown.address, shown.code)
    story.window.picture("paired")
    shown.wait_until_used()
    story.window.leave_dialog()
    row(story, FIRST)
    story.window.find("help-question")


def test_another_device_types_the_code_of_the_window(story: Story) -> None:
    """The window shows a code; the other device types it and finds this one by mDNS."""
    second = story.helpers[1]
    story.window.go_to("devices")
    story.window.click("add-device")
    story.window.click("show-code")

    def digits() -> str:
        return "".join(letter for letter in story.window.text("pair-code") if letter.isdigit())

    wait_until(lambda: len(digits()) == 6, "a code of six digits")
    code = digits()
    second.ask("pair", code, "--with", ME)
    wait_until(lambda: SECOND in story.window.text("join-done"), "the question")
    story.window.leave_dialog()
    row(story, SECOND)


def test_trust_is_given_on_both_sides_and_the_sentence_is_said(story: Story) -> None:
    """A paired device takes part in nothing until both owners trust each other."""
    for helper in story.helpers:
        story.window.done(lambda helper=helper: choose_trust(story, helper.name, "trusted"))
        helper.ask("devices", "trust", ME, "trusted")
        helper.share(True)

    def page() -> str:
        return story.window.driver.find_element(By.TAG_NAME, "body").text

    # The honest sentence stands where trust is chosen.
    wait_until(lambda: "word for word" in page(), "the honest sentence")
    for helper in story.helpers:
        wait_until(lambda helper=helper: knows_me(helper), f"a link with {helper.name}")
    story.window.picture("devices")


def test_a_prompt_walks_through_both_helpers(story: Story) -> None:
    """The route names all three devices, and the text is that of the port."""
    end = time.monotonic() + OFFER_SECONDS
    while True:
        # Without history: the answers to a story that was told before are short.
        texts = ask_fresh(story, PROMPT)
        shown = route(story)
        if FIRST in shown and SECOND in shown:
            break
        assert time.monotonic() < end, f"the helpers were not used: {shown}"
    assert texts and texts[-1]
    story.window.picture("chat")
    picture_of_screen("desktop")


def test_the_port_says_what_the_window_says(story: Story) -> None:
    """The same conversation through the port, greedy on both sides, gives the same words."""
    reply = port_reply(story, PROMPT)
    texts = ask_fresh(story, PROMPT)
    # The page sets paragraphs its own way; the words are what must be the same.
    assert texts[-1].split() == reply.split()


def test_sharing_is_in_step_in_window_and_tray(story: Story) -> None:
    """Two switches for one choice; each follows the other."""
    icon = story.panel.wait_for_icon()

    def in_tray() -> bool:
        return any(entry.checked for entry in story.panel.menu(icon) if entry.is_check)

    def in_window() -> bool:
        toggle = "share-toggle"
        checked = story.window.done(
            lambda: story.window.find(toggle).get_attribute("aria-checked")
        )
        return checked == "true"

    story.window.go_to("devices")
    wait_until(lambda: in_window() == in_tray(), "both to agree")
    start = in_window()
    story.window.click("share-toggle")
    wait_until(lambda: in_tray() != start, "the tray to follow the window")
    story.panel.click(icon, "Share this computer")
    wait_until(lambda: in_window() == start, "the window to follow the tray")


def ask(story: Story, prompt: str) -> list[str]:
    """Says something and gives every text that the reply showed while it grew."""
    story.window.go_to("chat")
    before = len(story.window.all("reply"))
    story.window.type("prompt", prompt)
    story.window.watch_reply()
    story.window.click("send")
    wait_until(lambda: len(story.window.all("reply")) > before, "a reply", REPLY_SECONDS)
    wait_until(lambda: last_phase(story) in ("finished", "cut"), "its end", REPLY_SECONDS)
    texts = story.window.watched_reply()
    assert last_phase(story) == "finished", f"the reply was cut: {texts[-1:]}"
    return texts


def ask_fresh(story: Story, prompt: str) -> list[str]:
    """Asks in a conversation that has no history."""
    story.window.go_to("chat")
    story.window.click("new-chat")
    # The replies of the chat before stand there a little longer.
    wait_until(lambda: not story.window.all("reply"), "an empty chat")
    return ask(story, prompt)


def last_reply(story: Story) -> str:
    """Text of the newest reply."""
    try:
        return story.window.all("reply-text")[-1].text.strip()
    except (IndexError, StaleElementReferenceException):
        return ""  # It is being painted anew.


def last_phase(story: Story) -> str:
    """How far the newest reply is, as the page says."""
    try:
        return story.window.all("reply")[-1].get_attribute("data-phase") or ""
    except (IndexError, StaleElementReferenceException):
        return ""


def route(story: Story) -> str:
    """What the newest reply says of who computed it."""

    def shown() -> str:
        try:
            ribbon = story.window.all("route-ribbon")[-1]
            return f"{ribbon.text} {ribbon.get_attribute('textContent')}".strip()
        except (IndexError, StaleElementReferenceException):
            return ""

    return wait_until(shown, "a route")


def row(story: Story, name: str) -> WebElement:
    """The row of a device."""
    story.window.go_to("devices")

    def found() -> list[WebElement]:
        try:
            return [row for row in story.window.all("device-row") if name in row.text]
        except StaleElementReferenceException:
            return []

    return wait_until(found, f"the row of {name}")[0]


def choose_trust(story: Story, name: str, level: str) -> None:
    """Chooses how far a device is trusted."""
    select = row(story, name).find_element(By.CSS_SELECTOR, '[data-testid="trust-select"]')
    Select(select).select_by_value(level)


def knows_me(helper: Node) -> bool:
    """Whether the helper has a link with the asking device."""
    return any(device["name"] == ME and device["connected"] for device in helper.devices())


def port_reply(story: Story, prompt: str) -> str:
    """The reply of the app's own port to the same single message."""
    home = str(story.app.home)
    key = subprocess.run(
        [program(), "--home", home, "key"], capture_output=True, text=True, check=True
    ).stdout.strip()
    wish: dict[str, Any] = {"model": "ember", "messages": [{"role": "user", "content": prompt}]}
    asked = urllib.request.Request(
        f"http://127.0.0.1:{story.app.port}/v1/chat/completions",
        data=json.dumps(wish | {"temperature": 0}).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=REPLY_SECONDS) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]

"""The real window on its own: first start, what can be done with a chat, and every page.

One story in one window, like `test_window.py`; no other device takes part.
"""

from collections.abc import Iterator

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from gui.app import App, Window
from gui.sni import Panel, wait_until

PROMPT = "Tell me a very long story about every room of the house."
PAGES = ["devices", "models", "sharing", "privacy", "port", "checks", "settings"]
REPLY_SECONDS = 60


@pytest.fixture(scope="module")
def window() -> Iterator[Window]:
    """The window of a home that was never used."""
    panel = Panel()
    app = App("Kitchen laptop")
    with Window(app) as window:
        yield window
    panel.close()


def phase(window: Window) -> str:
    """How the newest reply stands; empty while there is none."""
    try:
        replies = window.all("reply")
        return (replies[-1].get_attribute("data-phase") or "") if replies else ""
    except StaleElementReferenceException:
        return ""


def text_of(window: Window, test_id: str) -> str:
    """What stands there now; empty while the page is being drawn anew."""
    try:
        return window.find(test_id).text.strip()
    except StaleElementReferenceException:
        return ""


def until_phase(window: Window, *wanted: str) -> None:
    """Waits for the newest reply to stand so."""
    wait_until(lambda: phase(window) in wanted, " or ".join(wanted), REPLY_SECONDS)


def test_the_first_start_asks_and_is_over(window: Window) -> None:
    """The name is kept; the other questions can be skipped; chatting works beside it."""
    window.find("first-start", 60)
    window.find("prompt")
    window.picture("first-start")
    window.type("first-name", "Reading corner")
    window.click("first-next")
    window.find("first-share")
    window.click("first-skip")
    window.click("first-next")
    wait_until(lambda: not window.all("first-start"), "the end of the first start")
    window.click("nav-devices")
    wait_until(lambda: "Reading corner" in text_of(window, "this-device"), "the new name")


def test_a_stopped_reply_says_so_in_one_word_and_goes_on(window: Window) -> None:
    """What was said stays in front of what follows."""
    window.click("nav-chat")
    window.type("prompt", PROMPT)
    window.watch_reply(stop_at_once=True)
    window.click("send")
    until_phase(window, "cut")
    window.watched_reply()
    assert text_of(window, "cut") == "Stopped."
    said = text_of(window, "reply-text")
    window.find("route-ribbon")
    window.click("more")
    until_phase(window, "finished")
    assert text_of(window, "reply-text").startswith(said)
    assert len(window.all("reply")) == 1
    window.picture("chat-continued")


def test_the_last_message_is_edited_with_the_up_key(window: Window) -> None:
    """The old one stays beside it."""
    window.find("prompt").send_keys(Keys.ARROW_UP)
    field = window.find("edit-field")
    field.clear()
    field.send_keys("Once upon a time", Keys.ENTER)
    wait_until(lambda: "Once upon a time" in text_of(window, "person"), "the edited message")
    until_phase(window, "finished", "cut")
    wait_until(lambda: "2/2" in text_of(window, "variants"), "both versions")


def test_a_reply_and_its_route_are_there_after_the_page_was_loaded_anew(window: Window) -> None:
    """Chats, drafts and who computed what are found again."""
    said = text_of(window, "reply-text")
    window.type("prompt", "half a thought")
    window.driver.refresh()
    window.find("prompt", 60)
    wait_until(lambda: bool(window.all("conversation")), "the conversations")
    window.all("conversation")[0].find_element(By.CSS_SELECTOR, "button.title").click()
    wait_until(lambda: text_of(window, "reply-text") == said, "the reply")
    window.find("route-ribbon")
    assert window.find("prompt").get_attribute("value") == "half a thought"
    window.find("prompt").clear()


def test_a_chat_that_is_not_kept_is_in_no_list(window: Window) -> None:
    """It asks before it is left."""
    before = len(window.all("conversation"))
    window.click("new-chat")
    window.click("temporary")
    window.type("prompt", "Hello")
    window.click("send")
    until_phase(window, "finished", "cut")
    window.find("temporary-badge")
    window.click("new-chat")
    window.click("confirm-yes")
    wait_until(lambda: not window.all("reply"), "the end of that chat")
    assert len(window.all("conversation")) == before


def test_every_page_shows(window: Window) -> None:
    """And is as wide as the window, no wider."""
    for page in PAGES:
        window.click(f"nav-{page}")
        heading = window.driver.find_element(By.CSS_SELECTOR, "main h1")
        assert heading.text
        wide = window.driver.execute_script(
            "return document.documentElement.scrollWidth > window.innerWidth"
        )
        assert not wide, page
        window.picture(f"page-{page}")


def test_settings_are_kept_by_the_house_and_the_page(window: Window) -> None:
    """A limit, the colours, the port's own answer, what the doctor says."""
    window.click("nav-sharing")
    field = window.find("lend-streams")
    field.clear()
    field.send_keys("3", Keys.ENTER)
    window.click("nav-settings")
    Select(window.find("theme")).select_by_value("dark")
    window.driver.refresh()
    window.find("prompt", 60)
    theme = window.driver.execute_script("return document.documentElement.dataset.theme")
    assert theme == "dark"
    window.click("nav-sharing")
    assert window.find("lend-streams").get_attribute("value") == "3"
    window.click("nav-port")
    window.click("test-port")
    assert window.find("tested").text == "The port answers."
    window.click("nav-checks")
    assert window.find("finding").text


def test_the_window_speaks_german(window: Window) -> None:
    """The page is loaded anew for it."""
    window.click("nav-settings")
    Select(window.find("language")).select_by_value("de")
    wait_until(lambda: text_of(window, "nav-chat") == "Gespräch", "German")
    window.picture("german")

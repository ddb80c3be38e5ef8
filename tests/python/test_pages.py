"""The real window on its own: first start, what can be done with a chat, and every page.

One story in one window, like `test_window.py`; no other device takes part.
"""

import base64
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from gui import keys
from gui.app import SECTIONS, App, Window, close_windows, picture_of_screen, windows
from gui.sni import Panel, wait_until
from nodes import Slowed

PROMPT = "Tell me a very long story about every room of the house."
PAGES = ["devices", "models", *SECTIONS]
# The part of a conversation's row that opens it.
TITLE = (By.CSS_SELECTOR, "button.title")
REPLY_SECONDS = 120
EMBER = Path(__file__).parents[2] / "crates" / "nook-store" / "ember" / "ember-q8_0.gguf"
# Whatever holds more than it is wide, but code and tables. The document alone would not tell: its
# body hides what is too much, and the pages scroll in parts of their own.
TOO_WIDE = """
const mayScroll = (at) =>
  at.matches("pre, input, select") || at.querySelector(":scope > table") !== null;
return [...document.querySelectorAll("html, body, body *")].filter((at) => {
  if (at.clientWidth === 0 || at.scrollWidth <= at.clientWidth + 1 || mayScroll(at)) return false;
  const style = getComputedStyle(at);
  // For readers alone.
  if (style.clipPath === "inset(50%)") return false;
  const isFrame = at.matches("html, body") || style.overflowX !== "visible";
  return isFrame && style.textOverflow !== "ellipsis";
}).map((at) => at.outerHTML.slice(0, 100));
"""
CHOOSE = """
const [name, content] = arguments;
const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
const chosen = new DataTransfer();
chosen.items.add(new File([bytes], name));
const field = document.querySelector('[data-testid="attach"]');
field.files = chosen.files;
field.dispatchEvent(new Event("change", {bubbles: true}));
"""


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


def until_phase(window: Window, *wanted: str) -> None:
    """Waits for the newest reply to stand so."""
    wait_until(lambda: phase(window) in wanted, " or ".join(wanted), REPLY_SECONDS)


def words_of(window: Window, selector: str) -> str:
    """The words of all elements that fit; empty while there is none."""

    def words() -> str:
        found = window.driver.find_elements(By.CSS_SELECTOR, selector)
        return "".join(element.text for element in found)

    return window.done(words)


def test_the_first_start_asks_and_is_over(window: Window) -> None:
    """The name is kept; the other questions can be skipped; chatting works beside it."""
    window.find("first-start")
    window.find("prompt")
    window.picture("first-start")
    window.type("first-name", "Reading corner")
    window.click("first-next")
    window.leave_model()
    window.click("first-next")
    window.find("first-devices")
    window.click("first-next")
    wait_until(lambda: not window.all("first-start"), "the end of the first start")
    window.go_to("devices")
    wait_until(lambda: "Reading corner" in window.text("this-device"), "the new name")


def test_a_stopped_reply_says_so_in_one_word_and_goes_on(window: Window) -> None:
    """What was said stays in front of what follows."""
    window.go_to("chat")
    window.type("prompt", PROMPT)
    window.watch_reply(stop_at_once=True)
    # Or the reply might be told to its end before the page has painted its first word.
    with Slowed(window.app.workers):
        window.click("send")
        until_phase(window, "cut")
    window.watched_reply()
    window.until_text("cut", "Stopped.")
    said = window.text("reply-text")
    window.find("route-ribbon")
    window.click("more")
    until_phase(window, "finished")
    assert window.text("reply-text").startswith(said)
    assert len(window.all("reply")) == 1
    window.picture("chat-continued")


def test_the_last_message_is_edited_with_the_up_key(window: Window) -> None:
    """The old one stays beside it."""
    window.find("prompt").send_keys(Keys.ARROW_UP)
    window.type("edit-field", "Once upon a time", Keys.ENTER)
    wait_until(lambda: "Once upon a time" in window.text("person"), "the edited message")
    wait_until(lambda: "2/2" in window.text("variants"), "both versions")
    # Asked last: until then the reply that stands there may be the old one.
    until_phase(window, "finished", "cut")


def test_a_reply_and_its_route_are_there_after_the_page_was_loaded_anew(window: Window) -> None:
    """Chats, drafts and who computed what are found again."""
    said = window.text("reply-text")
    window.type("prompt", "half a thought")
    window.driver.refresh()
    window.find("prompt")
    window.done(lambda: window.find("conversation").find_element(*TITLE).click())
    window.until_text("reply-text", said)
    window.find("route-ribbon")
    wait_until(lambda: window.value("prompt") == "half a thought", "the draft")
    window.type("prompt", "")


def test_a_pdf_is_attached_as_its_text(window: Window) -> None:
    """Read in a worker of the page; one without text is refused in words."""
    window.click("new-chat")
    attach(window, "Leaves.pdf", pdf("BT /F 12 Tf 20 150 Td (Leaves change colour in autumn.) Tj ET"))
    wait_until(lambda: "Leaves.pdf" in window.text("file"), "the file", REPLY_SECONDS)
    attach(window, "Scan.pdf", pdf("0.5 g 10 10 100 100 re f"))
    wait_until(lambda: "pictures of pages" in window.text("refused"), "the refusal")
    window.picture("chat-attached")
    window.find("file").find_element(By.CSS_SELECTOR, "button[aria-label]").click()
    wait_until(lambda: not window.all("file"), "an empty message")


def attach(window: Window, name: str, content: bytes) -> None:
    """Chooses a file as a person does, without the desktop's own dialog."""
    window.driver.execute_script(CHOOSE, name, base64.b64encode(content).decode())


def pdf(stream: str) -> bytes:
    """A PDF of one page that is drawn by `stream`."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] "
        "/Resources << /Font << /F 3 0 R >> >> /Contents 5 0 R >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
    ]
    text, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(text)
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    text += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}"
    text += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return text.encode("ascii")


def test_a_chat_that_is_not_kept_is_in_no_list(window: Window) -> None:
    """It asks before it is left."""
    before = len(window.all("conversation"))
    window.click("new-chat")
    # The reply of the chat before stands there a little longer.
    wait_until(lambda: not window.all("reply"), "an empty chat")
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
    """And nothing on it is wider than its place."""
    for page in PAGES:
        window.go_to(page)
        current = f"section-{page}" if page in SECTIONS else f"nav-{page}"
        chosen = f'[data-testid="{current}"][aria-current="page"]'
        wait_until(lambda at=chosen: words_of(window, at), f"the page {page}")
        wait_until(lambda: words_of(window, "main h1"), "its heading")
        assert not window.driver.execute_script(TOO_WIDE), page
        window.picture(f"page-{page}")


def test_a_models_file_is_chosen_in_the_desktops_own_dialog(window: Window) -> None:
    """Typed into the dialog as a person does who knows the way."""
    window.go_to("models")
    before = app_windows()
    window.click("choose-model")
    [dialog] = wait_until(lambda: app_windows() - before, "the dialog")
    subprocess.run(["xdotool", "windowactivate", "--sync", dialog], check=True)
    picture_of_screen("file-dialog")
    type_path()
    field = window.find("model-path")

    def chosen() -> bool:
        # The dialog opens a field at the first letter and completes names as they are typed, and on
        # a busy machine loses some: a dialog that stays open is typed into again.
        if stays_open(before):
            type_path()
        return field.get_attribute("value") == str(EMBER)

    wait_until(chosen, "the path")
    assert app_windows() == before


def type_path() -> None:
    """The path of a model, in place of what stands in the dialog."""
    subprocess.run(["xdotool", "key", "ctrl+a"], check=True)
    subprocess.run(["xdotool", "type", "--delay", "30", str(EMBER)], check=True)
    subprocess.run(["xdotool", "key", "Return"], check=True)


def stays_open(before: set[str]) -> bool:
    """Whether a dialog is still there after it has had time to close."""
    for _ in range(50):
        if not app_windows() - before:
            return False
        time.sleep(0.1)
    return True


def app_windows() -> set[str]:
    """Windows and dialogs of the app that are on the display."""
    search = ["xdotool", "search", "--onlyvisible", "--class", "inglenook"]
    done = subprocess.run(search, capture_output=True, text=True, check=False)
    return set(done.stdout.split())


def test_settings_are_kept_by_the_house_and_the_page(window: Window) -> None:
    """A limit, the colours, the port's own answer, what the doctor says."""
    window.go_to("sharing")
    window.type("lend-streams", "3", Keys.ENTER)
    window.go_to("settings")
    window.done(lambda: Select(window.find("theme")).select_by_value("dark"))
    window.driver.refresh()
    window.find("prompt")

    def theme() -> str:
        return window.driver.execute_script("return document.documentElement.dataset.theme")

    wait_until(lambda: theme() == "dark", "the dark colours")
    window.go_to("sharing")
    wait_until(lambda: window.value("lend-streams") == "3", "the limit that was set")
    window.go_to("port")
    window.click("test-port")
    window.until_text("tested", "The port answers.")
    window.go_to("checks")
    wait_until(lambda: window.text("finding"), "what the doctor says")


def test_keys_bring_the_window_up_with_a_new_chat_from_any_program(window: Window) -> None:
    """Also where it was put away; not while another program has them; and `--ask` does the same."""
    window.go_to("settings")
    with keys.taken(keys.SPACE, keys.CONTROL | keys.SHIFT):
        choose_keys(window, "ctrl+shift+space", "taken")
        window.find("ask-keys-taken")
    choose_keys(window, "ctrl+alt+space", "held")
    settings = (window.app.home / "settings.toml").read_text()
    assert 'ask_keys = "ctrl+alt+space"' in settings
    window.picture("ask-keys")

    def is_asked() -> bool:
        field = "return document.activeElement?.id === 'prompt'"
        return bool(windows()) and window.driver.execute_script(field)

    for ask in (
        lambda: keys.press("ctrl+alt+space"),
        lambda: window.app.start("--ask").wait(REPLY_SECONDS),
    ):
        window.done(lambda: window.find("conversation").find_element(*TITLE).click())
        window.find("reply-text")
        window.go_to("models")
        close_windows()
        wait_until(lambda: not windows(), "no window")
        ask()
        wait_until(is_asked, "the window with the field of a chat")
        assert not window.all("reply"), "a new chat has none"
    window.go_to("settings")
    choose_keys(window, "off", "off")


def choose_keys(window: Window, wanted: str, state: str) -> None:
    """Chooses the keys, and waits for what becomes of them."""
    window.done(lambda: Select(window.find("ask-keys")).select_by_value(wanted))

    def came() -> bool:
        return window.find("ask-keys-state").get_attribute("data-state") == state

    wait_until(lambda: window.done(came), f"{wanted} to be {state}")


def test_the_window_speaks_german(window: Window) -> None:
    """The page is loaded anew for it."""
    window.go_to("settings")
    window.done(lambda: Select(window.find("language")).select_by_value("de"))
    window.until_text("nav-chat", "Gespräche")
    window.picture("german")

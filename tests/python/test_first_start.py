"""The first start in the real window, as a parent lives it: language, name, sharing, login, a device.

One story in one window of a home that was never used; each step is a test and the later ones stand on
the earlier. Another node is in the network and wants to be added. The last test is about what the page
of this window may not do, whatever got into it.
"""

import http.server
import json
import shlex
import subprocess
import threading
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from gui.app import App, Window
from gui.app import program as app_program
from gui.sni import Panel, wait_until
from nodes import Node, program

ME, OTHER = "Kitchen laptop", "Study PC"
SEEN_SECONDS = 120
# Tries to do what the policy of the page forbids, and says what came of it. A script of WebDriver's own
# may do more than the page's, so the tries begin in a task of the page.
TRIES = """
const [address, done] = arguments;
const violations = [];
document.addEventListener('securitypolicyviolation', (event) => {
  violations.push(event.effectiveDirective);
});
const refused = async (work) => {
  try { await work(); return false; } catch { return true; }
};
setTimeout(async () => {
  const inline = document.createElement('script');
  inline.textContent = 'window.inlineRan = true';
  document.body.append(inline);
  const strange = document.createElement('script');
  strange.src = address + 'script.js';
  document.body.append(strange);
  const picture = new Image();
  picture.src = address + 'picture.png';
  const frame = document.createElement('iframe');
  frame.src = address + 'frame.html';
  document.body.append(frame);
  const results = {
    eval: await refused(() => eval('1 + 1')),
    construct: await refused(() => new Function('return 1')()),
    fetch: await refused(() => fetch(address + 'fetch')),
    socket: await refused(() => new Promise((yes, no) => {
      const socket = new WebSocket(address.replace('http', 'ws') + 'socket');
      socket.onopen = yes;
      socket.onerror = no;
    })),
  };
  await new Promise((later) => setTimeout(later, 500));
  results.inline = window.inlineRan === undefined;
  for (const one of [inline, strange, frame]) one.remove();
  results.violations = violations;
  done(results);
}, 0);
"""


@dataclass
class Story:
    """What the steps share."""

    window: Window
    app: App
    other: Node


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """A fresh home, and another computer in the same network."""
    panel = Panel()
    app = App(ME)
    with Node(OTHER) as other, Window(app) as window:
        yield Story(window, app, other)
    panel.close()


def test_the_language_is_chosen_first_and_the_question_stays(story: Story) -> None:
    """The page is loaded anew in the other language and asks the same question."""
    window = story.window
    window.find("first-start")
    window.done(lambda: Select(window.find("first-language")).select_by_value("de"))
    wait_until(lambda: "Willkommen" in window.text("first-start"), "German")
    assert window.value("first-name") == ME
    window.picture("first-start-german")
    window.done(lambda: Select(window.find("first-language")).select_by_value("en"))
    wait_until(lambda: "Welcome" in window.text("first-start"), "English")


def test_the_name_is_kept(story: Story) -> None:
    """What is typed is the name that others see."""
    story.window.type("first-name", "Reading corner")
    story.window.click("first-next")
    story.window.find("first-model")
    wait_until(lambda: settings(story)["device"]["name"] == "Reading corner", "the name on the disk")


def test_sharing_begins_only_when_it_is_switched_on_and_says_within_which_limits(
    story: Story,
) -> None:
    """Off before; the limits and the times stand beside the switch, and can be set there."""
    window = story.window
    window.leave_model()
    assert checked(window, "first-share") == "false"
    said = window.text("first-start")
    assert "of memory" in said and "Only devices that you pair and trust" in said
    window.click("first-limits")
    for rule in ("pause-on-battery", "pause-in-full-screen", "pause-when-busy", "quiet-hours"):
        window.find(rule)
    window.picture("first-start-share")
    assert not lent(story), "nothing is lent before somebody says so"
    window.click("first-share")
    wait_until(lambda: checked(window, "first-share") == "true", "the switch")
    wait_until(lambda: lent(story), "sharing")
    window.click("quiet-hours")
    wait_until(lambda: "quiet_hours" in text_of_settings(story), "quiet hours on the disk")
    # The disk is written before the page has heard of it, and a click turns round what the page shows.
    wait_until(lambda: checked(window, "quiet-hours") == "true", "quiet hours on the page")
    window.click("quiet-hours")
    wait_until(lambda: "quiet_hours" not in text_of_settings(story), "no quiet hours")
    wait_until(lambda: checked(window, "quiet-hours") == "false", "none on the page")


def test_it_starts_at_login_only_when_that_is_switched_on_and_then_hidden(story: Story) -> None:
    """The entry is what the desktop reads at login; it is gone when the switch is off again."""
    window, entry = story.window, story.app.login_entry
    assert checked(window, "autostart") == "false"
    assert not entry.exists()
    window.click("autostart")
    wait_until(entry.exists, "the entry")
    wait_until(lambda: checked(window, "autostart") == "true", "the switch")
    lines = entry.read_text().splitlines()
    assert lines[0] == "[Desktop Entry]"
    values = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
    assert values["Type"] == "Application"
    started = shlex.split(values["Exec"])
    assert Path(started[0]).samefile(app_program())
    assert started[1:] == ["--hidden"]
    checks = subprocess.run(["which", "desktop-file-validate"], capture_output=True, check=False)
    if checks.returncode == 0:
        subprocess.run(["desktop-file-validate", str(entry)], check=True)
    window.click("autostart")
    wait_until(lambda: not entry.exists(), "no entry")
    wait_until(lambda: checked(window, "autostart") == "false", "the switch")


def test_a_computer_in_the_network_is_seen_and_added(story: Story) -> None:
    """The last question names who is there; adding ends the first start and pairs the two."""
    window, other = story.window, story.other
    shown = other.show_code()
    window.click("first-next")
    wait_until(lambda: window.all("first-seen"), "the other computer", SEEN_SECONDS)
    wait_until(lambda: "shows a code now" in window.text("first-seen"), "its code", SEEN_SECONDS)
    window.picture("first-start-others")
    window.click("first-devices")
    window.pair(shown.address, shown.code)
    shown.wait_until_used()
    window.leave_dialog()
    window.find("device-row")
    window.go_to("chat")
    window.find("prompt")
    assert not window.all("first-start"), "it is over"


def test_both_screens_show_the_same_safety_number(story: Story) -> None:
    """What the window shows is what the other device's owner reads there."""
    window = story.window
    window.go_to("devices")
    window.done(
        lambda: window.find("device-row")
        .find_element(By.CSS_SELECTOR, '[data-testid="device-more"]')
        .click()
    )
    shown = wait_until(
        lambda: "".join(
            one.get_attribute("textContent") or "" for one in window.all("safety-number")
        ).strip(),
        "the safety number",
    )
    [me] = [device for device in story.other.devices() if device["paired"]]
    there = json.loads(story.other.ask("devices", "--json", "safety", me["short_id"]))
    assert shown == there["safety_number"]
    assert len([letter for letter in shown if letter.isdigit()]) == 40


def test_the_page_can_do_nothing_but_what_the_program_brought(story: Story) -> None:
    """Inline scripts, `eval`, and every way to another address are refused; nothing arrives there."""
    asked: list[str] = []

    class Outside(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, format: str, *values: Any) -> None:
            """The list of what was asked says it all."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Outside)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/"
        with urllib.request.urlopen(address + "control", timeout=30) as answer:
            assert answer.status == 200
        assert asked == ["/control"], "else the server would notice nothing"
        results = story.window.driver.execute_async_script(TRIES, address)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    violations = results.pop("violations")
    assert all(results.values()), results
    assert asked == ["/control"], "a request left the page"
    kinds = {directive.removesuffix("-elem").removesuffix("-attr") for directive in violations}
    assert {"script-src", "connect-src", "img-src"} <= kinds, violations


def checked(window: Window, test_id: str) -> str:
    """How a switch stands."""
    return window.done(lambda: window.find(test_id).get_attribute("aria-checked") or "")


def text_of_settings(story: Story) -> str:
    """The settings as they are on the disk."""
    return (story.app.home / "settings.toml").read_text()


def settings(story: Story) -> dict[str, Any]:
    """The settings as they are on the disk, read."""
    return tomllib.loads(text_of_settings(story))


def lent(story: Story) -> bool:
    """Whether the app shares, as another door to it says."""
    said = subprocess.run(
        [program(), "--home", str(story.app.home), "share", "--json"],
        env=story.app.environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return json.loads(said)["on"]

"""The programs of a package, where the package has put them: terminal, manual, window, tray.

`PACKAGE_ROOT` is where it is installed (`/`) or unpacked, `PACKAGE_CONTENTS` where it was unpacked.
What the programs do is tested elsewhere; here it is that they are all there and work together.
"""

import configparser
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gui.app import App, Window, close_windows, windows
from gui.sni import Panel, wait_until
from nodes import program, write_settings
from test_tray import CHAT, QUIT, share_entry, switch_sharing, until_up
from test_window import REPLY_SECONDS, Story, last_phase, last_reply, route

ROOT = Path(os.environ.get("PACKAGE_ROOT", "/"))
CONTENTS = Path(os.environ.get("PACKAGE_CONTENTS", ROOT))
ME = "Kitchen laptop"


@pytest.fixture
def home() -> Iterator[Path]:
    """A home without a node."""
    with tempfile.TemporaryDirectory(prefix="inglenook-package-") as folder:
        write_settings(Path(folder), ME)
        yield Path(folder)


def test_the_programs_are_those_of_the_package() -> None:
    """Nothing of the same name is tested by mistake, and what was installed is what was packed."""
    for name, tested in (("nook", program()), ("inglenook", os.environ["INGLENOOK_BIN"])):
        assert Path(tested) == ROOT / "usr/bin" / name
        assert Path(tested).read_bytes() == (CONTENTS / "usr/bin" / name).read_bytes()
        if ROOT == Path("/"):
            assert shutil.which(name) == tested
            search = ["dpkg-query", "--search", tested]
            owner = subprocess.run(search, capture_output=True, text=True, check=True)
            assert owner.stdout.startswith("inglenook:"), owner


def test_the_command_line_answers(home: Path) -> None:
    """Its version, what it finds wrong, a reply, and the exit status for a node that is not there."""
    assert nook(home, "--version").stdout.startswith("nook ")
    doctor = nook(home, "doctor", "--json")
    findings = json.loads(doctor.stdout)
    assert {"subject", "sentence", "verdict"} <= findings[0].keys()
    assert doctor.returncode == any(finding["verdict"] == "problem" for finding in findings)
    reply = nook(home, "generate", "--prompt", "Once upon a time", "--max-tokens", "8", "--json")
    assert reply.returncode == 0 and json.loads(reply.stdout)["text"], reply
    missing = nook(home, "devices")
    assert missing.returncode == 3 and "nook up" in missing.stderr, missing


def test_shells_find_their_completions() -> None:
    """Bash is asked as the tab key asks it; other shells read their file, where they are here."""
    share = ROOT / "usr/share"
    script = share / "bash-completion/completions/nook"
    ask_bash = (
        'source "$1"; COMP_WORDS=(nook de); COMP_CWORD=1; _nook nook de nook; '
        'echo "${COMPREPLY[@]}"'
    )
    command = ["bash", "--norc", "-c", ask_bash, "bash", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["debug", "devices"], done
    for shell, file in (
        ("zsh", "zsh/vendor-completions/_nook"),
        ("fish", "fish/vendor_completions.d/nook.fish"),
    ):
        knows_options = "until-tomorrow" in (share / file).read_text()
        assert knows_options, file
        if there(shell):
            subprocess.run([shell, "-n", str(share / file)], check=True)


def test_the_manual_can_be_read() -> None:
    """Each page is rendered without a warning; each program and each command has one."""
    pages = sorted((ROOT / "usr/share/man/man1").glob("nook*.1.gz"))
    pages.append(ROOT / "usr/share/man/man1/inglenook.1.gz")
    assert len(pages) > 15
    if not there("man"):
        return
    for page in pages:
        done = subprocess.run(
            ["man", "--warnings", "--local-file", str(page)],
            env=dict(os.environ, MANPAGER="cat", MANWIDTH="100", MAN_KEEP_FORMATTING=""),
            capture_output=True,
            text=True,
            check=True,
        )
        assert "EXIT STATUS" in done.stdout and "NAME" in done.stdout, page
        assert not done.stderr, f"{page}: {done.stderr}"


def test_the_desktop_finds_program_and_icon() -> None:
    """The entry starts the program that was packed, under the icon that was packed."""
    entry = configparser.ConfigParser(interpolation=None, strict=False)
    entry.optionxform = str  # Keys of desktop entries are told apart by their case.
    entry.read(ROOT / "usr/share/applications/Inglenook.desktop")
    desktop = entry["Desktop Entry"]
    assert desktop["Exec"] == "inglenook" and desktop["Name"] == "Inglenook"
    assert entry["Desktop Action ask"]["Exec"] == "inglenook --ask"
    assert entry["Desktop Action toggle-share"]["Exec"] == "inglenook --toggle-share"
    icons = ROOT / "usr/share/icons/hicolor"
    assert list(icons.glob(f"*/apps/{desktop['Icon']}.png"))
    assert list(icons.glob(f"scalable/apps/{desktop['Icon']}.svg"))


def test_the_window_answers_a_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    """The real window, a reply of the built-in model, computed here; says how long a first start took."""
    panel = Panel()
    app = App(ME)
    try:
        begun = time.monotonic()
        with Window(app) as window:
            story = Story(panel, window, app)
            wait_until(lambda: window.find("prompt").is_enabled(), "the message field")
            field = time.monotonic() - begun
            window.type("prompt", "Once upon a time")
            window.click("send")
            wait_until(lambda: last_reply(story), "the first words", REPLY_SECONDS)
            words = time.monotonic() - begun
            wait_until(lambda: last_phase(story) == "finished", "its end", REPLY_SECONDS)
            assert route(story)
            window.picture("package")
        with capsys.disabled():
            print(f"first start: {field:.1f} s to the message field, {words:.1f} s to the first words")
    finally:
        panel.close()


def test_the_tray_switches_and_quits() -> None:
    """Sharing on and off, a window that closes and comes back, and the end."""
    panel = Panel()
    try:
        with App(ME) as app:
            assert app.process
            icon = panel.wait_for_icon()
            until_up(panel, icon)
            switch_sharing(panel, icon, app, on=True)
            assert app.start("--toggle-share").wait(30) == 0
            wait_until(lambda: not share_entry(panel, icon).checked, "no check mark")
            panel.click(icon, CHAT)
            wait_until(windows, "the window")
            close_windows()
            wait_until(lambda: not windows(), "no window")
            panel.click(icon, QUIT)
            assert app.process.wait(30) == 0
    finally:
        panel.close()


def nook(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the packed command line in a home of its own."""
    return subprocess.run(
        [program(), "--home", str(home), *words],
        env=dict(os.environ, INGLENOOK_KEYRING="off"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def there(tool: str) -> bool:
    """Whether a program is on this machine; says aloud what is not looked at without it."""
    found = shutil.which(tool) is not None
    if not found:
        print(f"SKIPPED (no program `{tool}`)", file=sys.__stderr__, flush=True)
    return found

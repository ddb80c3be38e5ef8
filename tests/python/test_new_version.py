"""The app in the tray becomes a newer version: found by itself, installed, started anew in the tray.
One that does not come up is put back, and a person is told.

The newer version is the same program with another number written over its own, in a portable package
that a server of the test has, on a list that the test has signed. Broken ones are that with something
taken away.
"""

import hashlib
import http.server
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import minisign
import pytest

import nodes
from gui.app import App, windows
from gui.notices import NoticeBoard
from gui.sni import Panel, wait_until

PACKAGING = Path(__file__).parents[2] / "packaging" / "linux"
PROGRAMS = ("nook", "inglenook")
# Until the package is loaded, checked and swapped, on a machine with much else to do.
UPDATE_SECONDS = 300
LIST = "inglenook-versions.json"
TITLE = "A new version did not start"


class Release:
    """A computer with the portable package, and a server with a newer one."""

    def __init__(self, folder: Path, spoil: Callable[[bytes], bytes] = bytes) -> None:
        """`spoil`: what the app of the newer version is, made of the bytes that it should have."""
        self.old = subprocess.run(
            [nodes.program(), "--version"], check=True, capture_output=True, text=True
        ).stdout.split()[1]
        # As long as the old one, and higher.
        self.new = self.old[:-1] + "9"
        assert self.new != self.old
        self._folder = folder
        self.prefix = folder / "local"
        found = {"nook": nodes.program(), "inglenook": os.environ["INGLENOOK_BIN"]}
        package = self._package("old", {name: Path(found[name]) for name in PROGRAMS})
        subprocess.run(
            ["sh", str(package / "install.sh"), "--prefix", str(self.prefix)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self._keys = minisign.KeyPair.generate()
        served = folder / "served"
        served.mkdir()
        self._offer(served, spoil)
        handler = _quiet(served)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def app(self) -> Path:
        """The installed app."""
        return self.prefix / "bin" / "inglenook"

    def environment(self) -> dict[str, str]:
        """What an installed program has to know to ask this server."""
        at = f"http://127.0.0.1:{self._server.server_port}/{LIST}"
        key = self._keys.public_key.to_base64().decode()
        return {"INGLENOOK_UPDATES_URL": at, "INGLENOOK_UPDATES_KEY": key}

    def trial(self) -> Any:
        """How far the version in place is; what the program itself remembers."""
        journal = self.prefix / "lib" / "inglenook-update" / "journal.json"
        return json.loads(journal.read_text())["trial"] if journal.exists() else None

    def put_in_place(self, app: App) -> None:
        """Installs the newer version while nothing runs."""
        nook = self.prefix / "bin" / "nook"
        words = [str(nook), "update", "--now"]
        subprocess.run(words, check=True, env=app.environment(), stdout=subprocess.DEVNULL)

    def _package(self, name: str, programs: dict[str, Path]) -> Path:
        content = self._folder / name
        (content / "bin").mkdir(parents=True)
        (content / "share" / "systemd" / "user").mkdir(parents=True)
        for program, found in programs.items():
            shutil.copy(found, content / "bin" / program)
            # Its symbols are most of an everyday build.
            if shutil.which("strip"):
                subprocess.run(["strip", str(content / "bin" / program)], check=True)
        shutil.copy(PACKAGING / "install.sh", content)
        unit = "inglenook.service"
        shutil.copy(PACKAGING / unit, content / "share" / "systemd" / "user" / unit)
        return content

    def _offer(self, served: Path, spoil: Callable[[bytes], bytes]) -> None:
        content = self._package("new", {name: self.prefix / "bin" / name for name in PROGRAMS})
        for name in PROGRAMS:
            program = content / "bin" / name
            program.write_bytes(
                program.read_bytes().replace(self.old.encode(), self.new.encode())
            )
        app = content / "bin" / "inglenook"
        app.write_bytes(spoil(app.read_bytes()))
        archive = served / "new.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1, format=tarfile.USTAR_FORMAT) as tar:
            tar.add(content, arcname="new")
        now = int(time.time())
        manifest = {
            "kind": "inglenook-update",
            "format": 1,
            "version": self.new,
            "serial": 2,
            "released": now - 1000,
            "expires": now + 100_000,
            "notes": {"en": "Another number."},
            "packages": [
                {
                    "platform": f"linux-{platform.machine()}-portable",
                    "file": archive.name,
                    "bytes": archive.stat().st_size,
                    "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                }
            ],
        }
        listed = json.dumps(manifest).encode()
        (served / LIST).write_bytes(listed)
        with self._keys.secret_key as key:
            (served / f"{LIST}.minisig").write_bytes(bytes(key.sign(listed)))


def _quiet(folder: Path) -> type[http.server.SimpleHTTPRequestHandler]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)

        def log_message(self, *_: object) -> None:
            """Nothing of it belongs into the report."""

    return Handler


@pytest.fixture
def release(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Release]:
    """A newer version that is there; of a test with parameters, one that is spoilt like that."""
    release = Release(tmp_path, getattr(request, "param", bytes))
    yield release
    release.close()


def ends_at_once(_: bytes) -> bytes:
    """An app that ends as soon as it is started."""
    return b"#!/bin/sh\nexit 9\n"


def hangs(_: bytes) -> bytes:
    """An app that runs and does nothing, and does not end when it is asked to."""
    return b"#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n"


def has_no_page(app: bytes) -> bytes:
    """An app whose window stays empty: the page that it opens is not in it."""
    assert b"/index.html" in app
    return app.replace(b"/index.html", b"/index.htmX")


def seen(app: App) -> dict[str, Any] | None:
    """What the app shows; nothing while its node is not up."""
    try:
        return app.view()
    except (OSError, ValueError):
        return None


def becomes(app: App, version: str) -> None:
    """Waits until the app runs as this version."""

    def is_it() -> bool:
        view = seen(app)
        return view is not None and view["me"]["app_version"] == version

    wait_until(is_it, f"version {version} to run", UPDATE_SECONDS)


def until_told(app: App) -> None:
    """Waits until the app knows of the newer version."""

    def is_told() -> bool:
        view = seen(app)
        return view is not None and view["updates"]["newer"] is not None

    wait_until(is_told, "the newer version to be told", UPDATE_SECONDS)


def is_back(app: App, release: Release) -> None:
    """Waits until the old version runs and says that the new one was put back."""
    trouble = {"kind": "taken_back", "version": release.new}

    def says_so() -> bool:
        view = seen(app)
        return (
            view is not None
            and view["me"]["app_version"] == release.old
            and view["updates"]["trouble"] == trouble
        )

    wait_until(says_so, "the old version to be back", UPDATE_SECONDS)


def is_told_once(board: NoticeBoard, release: Release) -> None:
    """Waits for the notice."""
    wait_until(lambda: board.titled(TITLE), "a notice about it")
    (notice,) = board.titled(TITLE)
    assert release.new in notice.text


def test_the_app_becomes_the_newer_version_and_is_in_the_tray_again(release: Release) -> None:
    """The same process, a new icon, no window that nobody opened."""
    panel, board = Panel(), NoticeBoard()
    with App(words=["--hidden"], installed=release.app, variables=release.environment()) as app:
        assert app.process
        panel.wait_for_icon()
        until_told(app)
        view = app.view()
        assert (view["me"]["app_version"], view["updates"]["way"]) == (release.old, "itself")
        app.call("install_update")
        becomes(app, release.new)
        assert app.process.poll() is None, "whoever started it sees the same process"
        panel.wait_for_icon()
        # It has shown itself that its window would open.
        wait_until(lambda: release.trial() == "passed", "the new version to pass", UPDATE_SECONDS)
        assert not windows(), "nobody has opened one"
        assert app.view()["updates"]["newer"] is None
        assert not board.titled(TITLE)
    board.close()
    panel.close()


@pytest.mark.parametrize("release", [ends_at_once, has_no_page], indirect=True)
def test_a_newer_version_that_does_not_come_up_is_put_back_and_that_is_told(
    release: Release,
) -> None:
    """Whoever looks at the tray sees the old one again, and a notice."""
    panel, board = Panel(), NoticeBoard()
    with App(words=["--hidden"], installed=release.app, variables=release.environment()) as app:
        before = release.app.read_bytes()
        until_told(app)
        app.call("install_update")
        is_back(app, release)
        assert release.app.read_bytes() == before
        panel.wait_for_icon()
        is_told_once(board, release)
        assert not windows(), "nobody has opened one"
        app.call("shut_down")
        wait_until(lambda: seen(app) is None, "its end")
    board.close()
    panel.close()


@pytest.mark.parametrize("release", [hangs, has_no_page], indirect=True)
def test_whoever_updates_in_a_terminal_gets_the_app_back_and_not_a_node_alone(
    release: Release,
) -> None:
    """The command says what happened; the window that was open is not there, but the icon is."""
    panel = Panel()
    with App(installed=release.app, variables=release.environment()) as app:
        wait_until(windows, "its window")
        until_told(app)
        words = [str(release.prefix / "bin" / "nook"), "update", "--now", "--patience", "40"]
        done = subprocess.run(
            words, check=False, env=app.environment(), capture_output=True, text=True
        )
        assert done.returncode == 1, done.stderr
        assert f"version {release.new} did not come up" in done.stderr
        is_back(app, release)
        panel.wait_for_icon()
        app.call("shut_down")
        wait_until(lambda: seen(app) is None, "its end")
    panel.close()


def test_a_newer_version_that_crashes_three_times_is_put_back_by_its_fourth_start(
    release: Release,
) -> None:
    """Also where nobody watches: after a power cut in the first start, for instance."""
    panel, board = Panel(), NoticeBoard()
    app = App(words=["--hidden"], installed=release.app, variables=release.environment())
    release.put_in_place(app)
    for start in range(1, 4):
        process = app.start("--hidden")
        counted = {"pending": {"starts": start}}
        wait_until(lambda counted=counted: release.trial() == counted, "the start to be counted")
        process.send_signal(signal.SIGKILL)
        process.wait()
    with app:
        is_back(app, release)
        panel.wait_for_icon()
        is_told_once(board, release)
    board.close()
    panel.close()

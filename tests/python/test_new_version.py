"""The app in the tray becomes a newer version: found by itself, installed, started anew in the tray.

The newer version is the same program with another number written over its own, in a portable package
that a server of the test has, on a list that the test has signed.
"""

import hashlib
import http.server
import json
import os
import platform
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import minisign
import pytest

import nodes
from gui.app import App, windows
from gui.sni import Panel, wait_until

PACKAGING = Path(__file__).parents[2] / "packaging" / "linux"
PROGRAMS = ("nook", "inglenook")
# Until the package is loaded, checked and swapped, on a machine with much else to do.
UPDATE_SECONDS = 300
LIST = "inglenook-versions.json"


class Release:
    """A computer with the portable package, and a server with a newer one."""

    def __init__(self, folder: Path) -> None:
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
        self._offer(served)
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

    def _offer(self, served: Path) -> None:
        content = self._package("new", {name: self.prefix / "bin" / name for name in PROGRAMS})
        for name in PROGRAMS:
            program = content / "bin" / name
            program.write_bytes(
                program.read_bytes().replace(self.old.encode(), self.new.encode())
            )
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
def release(tmp_path: Path) -> Iterator[Release]:
    """A newer version that is there."""
    release = Release(tmp_path)
    yield release
    release.close()


def seen(app: App) -> dict[str, Any] | None:
    """What the app shows; nothing while its node is not up."""
    try:
        return app.view()
    except (OSError, ValueError):
        return None


def test_the_app_becomes_the_newer_version_and_is_in_the_tray_again(release: Release) -> None:
    """The same process, a new icon, no window that nobody opened."""
    panel = Panel()
    with App(words=["--hidden"], installed=release.app, variables=release.environment()) as app:
        assert app.process
        panel.wait_for_icon()

        def is_told() -> bool:
            view = seen(app)
            return view is not None and view["updates"]["newer"] is not None

        wait_until(is_told, "the newer version to be told", UPDATE_SECONDS)
        view = app.view()
        assert (view["me"]["app_version"], view["updates"]["way"]) == (release.old, "itself")
        app.call("install_update")

        def is_new() -> bool:
            view = seen(app)
            return view is not None and view["me"]["app_version"] == release.new

        wait_until(is_new, "the newer version to run", UPDATE_SECONDS)
        assert app.process.poll() is None, "whoever started it sees the same process"
        panel.wait_for_icon()
        assert not windows(), "nobody has opened one"
        assert app.view()["updates"]["newer"] is None
    panel.close()

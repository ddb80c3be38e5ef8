"""The logs of the apps under test: one file for each app, and its end wherever a test fails.

An app in a `with` block of a test shows its log when the block ends with an error. One that a fixture
keeps does not hear of errors; for those `conftest.py` asks for [tails] when a test has failed.
"""

import os
import re
import sys
from collections import Counter
from pathlib import Path

LINES = 60
_open: list[Path] = []
_names: Counter[str] = Counter()


def new_log(folder: Path) -> Path:
    """A fresh file, named after the test that runs; it stays there for looking."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "no test").rsplit(" (", 1)[0]
    name = "app-" + re.sub(r"[^\w.-]+", "-", test).strip("-")
    _names[name] += 1
    number = _names[name]
    path = folder / f"{name}{f'-{number}' if number > 1 else ''}.log"
    path.write_bytes(b"")
    return path


def begin(log: Path) -> None:
    """Its app runs from now on."""
    _open.append(log)


def end(log: Path, error: BaseException | None) -> None:
    """Its app has ended; where that was because of an error, the last lines are shown."""
    _open.remove(log)
    if error:
        title, lines = tail(log)
        print(f"--- {title} ---\n{lines}", file=sys.stderr)


def tails() -> list[tuple[str, str]]:
    """Title and last lines of the logs of all apps that run now."""
    return [tail(log) for log in _open]


def tail(log: Path) -> tuple[str, str]:
    """What to call a log, and its last lines."""
    lines = log.read_text(errors="replace").splitlines()
    return f"end of {log}", "\n".join(lines[-LINES:])

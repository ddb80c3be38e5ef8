"""The programs of `examples/`, as their reader would run them, against a running node."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes import Node

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ME = "Kitchen laptop"
RUN_SECONDS = 300


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with Node(ME, with_port=True) as node:
        yield node


def run(
    node: Node, *command: str | Path, key: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs an example with the address and a key of the node."""
    return subprocess.run(
        command,
        env=dict(os.environ, INGLENOOK_URL=node.base_url, INGLENOOK_KEY=key or node.key()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def test_python_prints_a_reply_and_who_made_it(node: Node) -> None:
    """The words go to standard output, who computed them to standard error."""
    done = run(node, sys.executable, EXAMPLES / "python/who_helped.py", "Tell me a story.")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 3, done.stdout
    assert f"{ME}: " in done.stderr


def test_python_says_what_the_port_says_of_a_wrong_key(node: Node) -> None:
    """An example that fails says why, in one line."""
    script = EXAMPLES / "python/who_helped.py"
    done = run(node, sys.executable, script, key="not-the-key")
    assert done.returncode == 1
    assert "key" in done.stderr
    assert "Traceback" not in done.stderr


def test_node_gets_json_that_fits_its_schema(node: Node) -> None:
    """Even the story model keeps to the schema."""
    done = run(node, "node", EXAMPLES / "node/structured.mjs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith((", happy)", ", sad)")), done.stdout
    assert any(animal in done.stdout for animal in ["cat", "dog", "owl"])


def test_every_example_is_run_and_explained() -> None:
    """A new program has a line in the list and a test here."""
    programs = {file for ending in ("py", "mjs") for file in EXAMPLES.rglob(f"*.{ending}")}
    listed = (EXAMPLES / "README.md").read_text()
    tests = Path(__file__).read_text()
    for program in programs:
        name = program.relative_to(EXAMPLES).as_posix()
        assert name in listed, name
        assert name in tests, name

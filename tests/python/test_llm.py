"""The command line program `llm`, unchanged, against a running node, set up as its manual says."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import offline
from nodes import Node

QUESTION = "Tell me a story about a fire in the kitchen."
PROGRAM = Path(sys.executable).with_name("llm")
RUN_SECONDS = 300
MODELS = """
- model_id: house
  model_name: ember
  api_base: "{url}"
  api_key_name: house
  supports_tools: true
  supports_schema: true
"""


class Llm:
    """The program with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str, says: str = "") -> subprocess.CompletedProcess[str]:
        """Runs it with these words."""
        return subprocess.run(
            [PROGRAM, *words],
            env=dict(os.environ, LLM_USER_PATH=str(self.folder), **offline.NOBODY),
            input=says,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )

    def say(self, *words: str) -> str:
        """What it printed."""
        done = self.run(*words)
        assert done.returncode == 0, f"llm {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llm]:
    """The program with an extra model: one node with its port open."""
    folder = tmp_path_factory.mktemp("llm")
    with Node("Kitchen laptop", with_port=True) as node:
        (folder / "extra-openai-models.yaml").write_text(MODELS.format(url=node.base_url))
        (folder / "keys.json").write_text(json.dumps({"house": node.key()}))
        yield Llm(folder)


def test_a_prompt_is_answered_and_gone_on_with(llm: Llm) -> None:
    """Streamed as is usual, whole, and a second turn."""
    cool = ["-m", "house", "-o", "temperature", "0", "-o", "max_tokens", "24"]
    streamed = llm.say(*cool, QUESTION)
    assert streamed.strip()
    assert llm.say(*cool, "--no-stream", QUESTION) == streamed
    assert llm.say(*cool, "--continue", "Go on.").strip()
    logged = json.loads(llm.say("logs", "list", "--json", "-n", "1"))
    assert logged[0]["output_tokens"] > 0


def test_a_schema_is_kept_to(llm: Llm) -> None:
    """In the program's own short words for one."""
    short = ["-m", "house", "-o", "max_tokens", "64"]
    said = llm.say(*short, "--schema", "rain bool, degrees int", QUESTION)
    weather = json.loads(said)
    assert isinstance(weather["rain"], bool)
    assert isinstance(weather["degrees"], int)


def test_tools_are_offered(llm: Llm) -> None:
    """A story model need not call one."""
    go = "def go(way: str) -> str:\n    'Goes.'\n    return way"
    llm.say("-m", "house", "--functions", go, "-o", "max_tokens", "64", QUESTION)


def test_errors_are_said(llm: Llm) -> None:
    """A person reads what is wrong."""
    refused = llm.run("-m", "house", "--key", "wrong", QUESTION)
    assert refused.returncode != 0
    assert "The API key is not the one of this house" in refused.stderr

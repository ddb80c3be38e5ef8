"""Instructor, unchanged, against a running node: classes with every kind of field."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Optional

import instructor
import openai
import pydantic
import pytest

import offline
from nodes import Node

QUESTION = [{"role": "user", "content": "Tell me a story about a fire in the kitchen."}]
WISH = {
    "model": "ember",
    "messages": QUESTION,
    "max_retries": 0,
    "max_tokens": 400,
    "temperature": 1.5,
}
MODES = [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA]
# A small model might write one without end.
SHORT = pydantic.Field(max_length=8)
A_PATH = pydantic.WithJsonSchema({"type": "string", "format": "path", "maxLength": 12})


class Step(pydantic.BaseModel):
    """One object in another."""

    way: Literal["up", "down"]
    metres: int = pydantic.Field(ge=0, le=99)


class Strings(pydantic.BaseModel):
    """What strings stand for, by their `format`."""

    place: Annotated[Path, A_PATH]
    raw: Annotated[bytes, SHORT]
    secret: Annotated[pydantic.SecretStr, SHORT]
    day: datetime.date


class Choices(pydantic.BaseModel):
    """What may be one thing or another, or not there."""

    colours: set[Literal["red", "blue"]] = pydantic.Field(max_length=3)
    maybe: int | None
    either: Step | bool
    left_out: Optional[bool] = None


class Nested(pydantic.BaseModel):
    """Objects, lists and names within an object."""

    first: Step
    steps: list[Step] = pydantic.Field(max_length=2)
    pair: tuple[bool, Literal["a", "b"]]
    by_name: dict[Literal["x", "y"], bool]


class Anything(pydantic.BaseModel, extra="allow"):
    """All that a mode promises which only asks for JSON."""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with offline.enforced(), Node("Kitchen laptop", with_port=True) as node:
        yield node


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", [Strings, Choices, Nested])
def test_a_reply_is_of_its_class(
    node: Node, mode: instructor.Mode, kind: type[pydantic.BaseModel]
) -> None:
    """At the first try, by a tool and by a schema, however wildly the model chooses."""
    client = instructor.from_openai(client_of(node), mode=mode)
    for seed in range(2):
        made = client.chat.completions.create(**WISH, response_model=kind, seed=seed)
        assert isinstance(made, kind)


def test_lists_come_one_by_one_and_objects_piece_by_piece(node: Node) -> None:
    """The package reads JSON that is not whole yet."""
    client = instructor.from_openai(client_of(node), mode=instructor.Mode.JSON_SCHEMA)
    pieces = list(client.chat.completions.create_partial(**WISH, response_model=Step, seed=1))
    assert len(pieces) > 1, "it came in one lump"
    Step.model_validate(pieces[-1].model_dump())
    said, completion = client.chat.completions.create_with_completion(
        **WISH, response_model=Step, seed=1
    )
    assert isinstance(said, Step)
    assert completion.usage.completion_tokens > 0


def test_any_json_is_an_object(node: Node) -> None:
    """The mode that tells the model of the schema, and asks for JSON of whatever kind."""
    client = instructor.from_openai(client_of(node), mode=instructor.Mode.JSON)
    wish = {**WISH, "temperature": 0}
    assert isinstance(client.chat.completions.create(**wish, response_model=Anything), Anything)


def client_of(node: Node) -> openai.OpenAI:
    """The package below."""
    return openai.OpenAI(base_url=node.base_url, api_key=node.key(), max_retries=0)

"""Pydantic AI, unchanged, against a running node."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pydantic
import pytest
from pydantic_ai import Agent, ModelSettings, NativeOutput, ToolDefinition, ToolOutput
from pydantic_ai.direct import model_request_sync
from pydantic_ai.exceptions import ModelAuthenticationError, ModelContextWindowExceededError
from pydantic_ai.messages import ModelRequest, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ToolOrOutput

import offline
from nodes import Node

QUESTION = "Tell me a story about a fire in the kitchen."
MODEL = "ember"
COOL = ModelSettings(temperature=0, max_tokens=24)
WARM = ModelSettings(temperature=1.5, seed=5, max_tokens=300)
ONE = {**WARM, "parallel_tool_calls": False}
both = pytest.mark.parametrize(
    "kind", [OpenAIChatModel, OpenAIResponsesModel], ids=["chat", "responses"]
)
PARAMETERS = {
    "type": "object",
    "properties": {"way": {"type": "string", "enum": ["up", "down"]}},
    "required": ["way"],
}


def tool(name: str) -> ToolDefinition:
    """A tool that goes up or down."""
    return ToolDefinition(name=name, parameters_json_schema=PARAMETERS)


# One tool, and nothing but its call.
GO = ModelRequestParameters(function_tools=[tool("go")], allow_text_output=False)
GIVE = replace(tool("give"), kind="output")


class Step(pydantic.BaseModel):
    """A part of a typed reply."""

    way: Literal["up", "down"]
    far: bool


class Walk(pydantic.BaseModel):
    """What a typed reply is read into."""

    rain: bool
    first: Step
    then: Step | None


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with offline.enforced(), Node("Kitchen laptop", with_port=True) as node:
        yield node


def model_of(node: Node, kind: type[Model], key: str | None = None) -> Model:
    """The model as a program would name it."""
    provider = OpenAIProvider(base_url=node.base_url, api_key=key or node.key())
    return kind(MODEL, provider=provider)


@both
def test_a_stream_says_the_same_as_a_plain_reply(node: Node, kind: type[Model]) -> None:
    """Text and usage, and a second turn behind them."""
    agent = Agent(model_of(node, kind), model_settings=COOL, instructions="You are brief.")
    plain = agent.run_sync(QUESTION)
    assert plain.output
    assert plain.usage.output_tokens == 24

    async def streamed() -> list[str]:
        async with agent.run_stream(QUESTION) as stream:
            return [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]

    pieces = asyncio.run(streamed())
    assert len(pieces) > 1, "it came in one lump"
    assert "".join(pieces) == plain.output
    more = agent.run_sync("Go on.", message_history=plain.all_messages())
    assert more.usage.input_tokens > plain.usage.input_tokens


@both
@pytest.mark.parametrize("way", [ToolOutput, NativeOutput])
def test_a_typed_output_is_of_its_class(node: Node, kind: type[Model], way: type) -> None:
    """By a tool and by a schema."""
    agent = Agent(model_of(node, kind), model_settings=WARM, output_type=way(Walk))
    assert isinstance(agent.run_sync(QUESTION).output, Walk)


@both
def test_a_tool_is_called_and_its_result_read(node: Node, kind: type[Model]) -> None:
    """A call is forced; its result goes back."""
    forced = model_request_sync(
        model_of(node, kind),
        [ModelRequest.user_text_prompt(QUESTION)],
        model_settings=ONE,
        model_request_parameters=GO,
    )
    [call] = [part for part in forced.parts if isinstance(part, ToolCallPart)]
    assert call.args_as_dict()["way"] in ("up", "down")
    result = ToolReturnPart(call.tool_name, "Done.", call.tool_call_id)
    after = model_request_sync(
        model_of(node, kind),
        [ModelRequest.user_text_prompt(QUESTION), forced, ModelRequest([result])],
        model_settings=COOL,
        model_request_parameters=GO,
    )
    assert after.usage.input_tokens > forced.usage.input_tokens


@both
def test_a_tool_that_is_not_allowed_is_not_called(node: Node, kind: type[Model]) -> None:
    """Beside the tool that stands for the output, only one of two may be."""
    both_tools = replace(GO, function_tools=[tool("go"), tool("rest")], output_tools=[GIVE])
    for _ in range(4):
        said = model_request_sync(
            model_of(node, kind),
            [ModelRequest.user_text_prompt(QUESTION)],
            model_settings={**ONE, "tool_choice": ToolOrOutput(["go"])},
            model_request_parameters=replace(both_tools, output_mode="tool"),
        )
        [call] = [part for part in said.parts if isinstance(part, ToolCallPart)]
        assert call.tool_name in ("go", "give")


@both
def test_errors_are_known_by_their_kind(node: Node, kind: type[Model]) -> None:
    """A conversation that is too long, and a wrong key."""
    with pytest.raises(ModelContextWindowExceededError):
        Agent(model_of(node, kind)).run_sync(QUESTION * 400)
    with pytest.raises(ModelAuthenticationError):
        Agent(model_of(node, kind, "wrong")).run_sync(QUESTION)

"""OpenAI's `openai-agents`, unchanged, against a running node."""

import asyncio
from collections.abc import Iterator
from typing import Literal

import openai
import pydantic
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents.items import ToolCallItem, ToolCallOutputItem
from agents.models.interface import Model

import offline
from nodes import Node

QUESTION = "Tell me a story about a fire in the kitchen."
MODEL = "ember"
both = pytest.mark.parametrize(
    "kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel], ids=["chat", "responses"]
)

# Once, and in one step.
CALLS = ModelSettings(temperature=0, tool_choice="required", parallel_tool_calls=False)

set_tracing_disabled(True)


class Weather(pydantic.BaseModel):
    """What a typed reply is read into."""

    rain: bool
    sky: Literal["grey", "blue"]


@function_tool
def go(way: Literal["up", "down"]) -> str:
    """Goes.

    Args:
        way: Up or down.
    """
    return f"You went {way}."


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with offline.enforced(), Node("Kitchen laptop", with_port=True) as node:
        yield node


def model_of(node: Node, kind: type[Model]) -> Model:
    """The model as a program would name it. It must not hide a failure by trying again."""
    client = openai.AsyncOpenAI(base_url=node.base_url, api_key=node.key(), max_retries=0)
    return kind(MODEL, client)


@both
def test_an_agent_runs_its_tool_and_answers(node: Node, kind: type[Model]) -> None:
    """The first step must call; the package then lets the model answer. Whole and streamed."""

    async def asked() -> None:
        agent = Agent(
            name="Walker",
            instructions="You are brief.",
            model=model_of(node, kind),
            tools=[go],
            model_settings=CALLS,
        )
        result = await Runner.run(agent, QUESTION)
        calls = [item for item in result.new_items if isinstance(item, ToolCallItem)]
        outputs = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        assert calls and calls[0].raw_item.name == "go"
        assert outputs and outputs[0].output.startswith("You went ")
        stream = Runner.run_streamed(agent, QUESTION)
        kinds = {event.type async for event in stream.stream_events()}
        assert "raw_response_event" in kinds
        assert stream.final_output == result.final_output

    asyncio.run(asked())


@both
def test_a_typed_output_is_of_its_class(node: Node, kind: type[Model]) -> None:
    """The schema of a class is kept to."""
    agent = Agent(
        name="Watcher",
        model=model_of(node, kind),
        output_type=Weather,
        model_settings=ModelSettings(temperature=1.5, max_tokens=64),
    )
    result = asyncio.run(Runner.run(agent, QUESTION))
    assert isinstance(result.final_output, Weather)


def test_a_second_turn_goes_on_from_the_first(node: Node) -> None:
    """By the id of the answer, or with all its items; what OpenAI's servers do is left out."""

    async def asked() -> None:
        model = model_of(node, OpenAIResponsesModel)
        settings = ModelSettings(temperature=0)
        agent = Agent(name="Teller", model=model, tools=[WebSearchTool()], model_settings=settings)
        first = await Runner.run(agent, QUESTION)
        by_id = await Runner.run(agent, "Go on.", previous_response_id=first.last_response_id)
        more = {"role": "user", "content": "Go on."}
        by_items = await Runner.run(agent, [*first.to_input_list(), more])
        assert by_id.final_output == by_items.final_output
        used = [one.context_wrapper.usage.input_tokens for one in (first, by_id, by_items)]
        assert used[0] < used[1] == used[2]

    asyncio.run(asked())


@both
def test_errors_are_those_of_the_package_below(node: Node, kind: type[Model]) -> None:
    """A conversation that is too long."""
    agent = Agent(name="Teller", model=model_of(node, kind))
    with pytest.raises(openai.BadRequestError) as caught:
        asyncio.run(Runner.run(agent, QUESTION * 400))
    assert caught.value.code == "context_length_exceeded"

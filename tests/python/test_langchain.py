"""LangChain's `langchain-openai`, unchanged, against a running node."""

from collections.abc import Iterator
from typing import Literal

import openai
import pydantic
import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

import offline
from nodes import Node

QUESTION = "Tell me a story about a fire in the kitchen."
MODEL = "ember"


class Weather(pydantic.BaseModel):
    """What a structured reply is read into."""

    rain: bool
    sky: Literal["grey", "blue"]


@tool
def go(way: Literal["up", "down"]) -> str:
    """Goes."""
    return f"You went {way}."


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with offline.enforced(), Node("Kitchen laptop", with_port=True) as node:
        yield node


def chat(node: Node, **wish: object) -> ChatOpenAI:
    """The class as a program would set it up. It must not hide a failure by trying again."""
    usual = {"model": MODEL, "temperature": 0, "max_tokens": 24, "max_retries": 0}
    return ChatOpenAI(base_url=node.base_url, api_key=node.key(), **{**usual, **wish})


@pytest.mark.parametrize("newer", [False, True], ids=["chat", "responses"])
def test_a_stream_says_the_same_as_a_plain_reply(node: Node, newer: bool) -> None:
    """Text, reason and usage, over chat completions and over responses."""
    model = chat(node, use_responses_api=newer, stream_usage=True)
    plain = model.invoke(QUESTION)
    assert plain.text
    assert plain.usage_metadata["output_tokens"] == 24
    chunks = list(model.stream(QUESTION))
    assert len([chunk for chunk in chunks if chunk.text]) > 1, "it came in one lump"
    whole = sum(chunks[1:], chunks[0])
    assert whole.text == plain.text
    assert whole.usage_metadata["output_tokens"] == plain.usage_metadata["output_tokens"]
    if not newer:
        assert whole.response_metadata["finish_reason"] == "length"
    assert [one.text for one in model.batch([QUESTION, QUESTION])] == [plain.text] * 2


@pytest.mark.parametrize("newer", [False, True], ids=["chat", "responses"])
def test_tools_are_called_and_their_results_read(node: Node, newer: bool) -> None:
    """The whole round: call, result, next message."""
    model = chat(node, use_responses_api=newer, max_tokens=200)
    forced = model.bind_tools([go], tool_choice="any", parallel_tool_calls=False, strict=True)
    said = forced.invoke(QUESTION)
    [call] = said.tool_calls
    assert call["name"] == "go"
    assert call["args"]["way"] in ("up", "down")
    chunks: list[AIMessageChunk] = list(forced.stream(QUESTION))
    assert sum(chunks[1:], chunks[0]).tool_calls[0]["args"] == call["args"]
    result = go.invoke(call)
    assert isinstance(result, ToolMessage)
    after = model.bind_tools([go]).invoke([HumanMessage(QUESTION), said, result], max_tokens=8)
    assert after.usage_metadata["input_tokens"] > said.usage_metadata["input_tokens"]


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output_is_read_into_its_class(node: Node, method: str) -> None:
    """Both ways that hold the model to its schema."""
    model = chat(node, max_tokens=200, temperature=1.5, seed=5)
    weather = model.with_structured_output(Weather, method=method).invoke(QUESTION)
    assert isinstance(weather, Weather)


def test_the_next_turn_of_a_response_goes_on_from_it(node: Node) -> None:
    """With the id of the answer before, as the class sends it by itself."""
    model = chat(node, use_responses_api=True, use_previous_response_id=True)
    first = model.invoke(QUESTION)
    assert first.response_metadata["id"].startswith("resp_")
    second = model.invoke([HumanMessage(QUESTION), first, HumanMessage("Go on.")])
    assert second.usage_metadata["input_tokens"] > first.usage_metadata["input_tokens"]


def test_vectors_come_as_numbers(node: Node) -> None:
    """Texts as they are: token ids of OpenAI's models would mean nothing here."""
    vectors = OpenAIEmbeddings(
        model=MODEL,
        base_url=node.base_url,
        api_key=node.key(),
        check_embedding_ctx_length=False,
        max_retries=0,
    )
    one, other = vectors.embed_documents(["The fox ran up the hill.", "Bread is in the oven."])
    assert len(one) == len(other)
    assert sum(number * number for number in one) == pytest.approx(1, abs=1e-3)
    assert vectors.embed_query("The fox ran up the hill.") == pytest.approx(one, abs=1e-6)


def test_plain_text_is_continued(node: Node) -> None:
    """The older class, whole and streamed."""
    model = OpenAI(
        model=MODEL,
        base_url=node.base_url,
        api_key=node.key(),
        temperature=0,
        max_tokens=8,
        max_retries=0,
    )
    whole = model.invoke("Once upon a time")
    assert whole
    assert "".join(model.stream("Once upon a time")) == whole


def test_errors_are_known_by_the_class(node: Node) -> None:
    """A conversation that is too long has an error of its own."""
    with pytest.raises(ContextOverflowError):
        chat(node).invoke(QUESTION * 400)
    with pytest.raises(ContextOverflowError):
        chat(node, use_responses_api=True).invoke(QUESTION * 400)
    with pytest.raises(openai.NotFoundError):
        chat(node, model="no-such-model").invoke(QUESTION)

"""LiteLLM, unchanged, against a running node: aider and many others speak through it."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import litellm
import pydantic
import pytest

import offline
from nodes import Node, Slowed

QUESTION = [{"role": "user", "content": "Tell me a story about a fire in the kitchen."}]
# The word before the stroke says whose form the port has.
MODEL = "openai/ember"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "go",
            "description": "Goes.",
            "parameters": {
                "type": "object",
                "properties": {"way": {"type": "string", "enum": ["up", "down"]}},
                "required": ["way"],
            },
        },
    }
]
# More than may wait at once, and fewer than the port has connections: one that has not asked yet gives way.
CROWD = 48
# Longest wait until all of them have come, on a busy machine too.
REFUSAL_SECONDS = 120


class Weather(pydantic.BaseModel):
    """What a structured reply is read into."""

    rain: bool
    sky: Literal["grey", "blue"]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with offline.enforced(), Node("Kitchen laptop", with_port=True) as node:
        yield node


def ask(node: Node, **wish: Any) -> Any:
    """The function as a program would call it. It must not hide a failure by trying again."""
    usual = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
    where = {"api_base": node.base_url, "api_key": node.key(), "num_retries": 0, "max_retries": 0}
    return litellm.completion(**{**usual, **where, **wish})


def test_a_stream_says_the_same_as_a_plain_reply(node: Node) -> None:
    """Text, reason and usage; the package's own reader puts the stream together."""
    plain = ask(node)
    assert plain.choices[0].message.content
    assert plain.choices[0].finish_reason == "length"
    assert plain.usage.completion_tokens == 24
    chunks = list(ask(node, stream=True, stream_options={"include_usage": True}))
    whole = litellm.stream_chunk_builder(chunks, messages=QUESTION)
    assert whole.choices[0].message.content == plain.choices[0].message.content
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.total_tokens == plain.usage.total_tokens


def test_tools_are_called_and_their_results_read(node: Node) -> None:
    """The whole round, whole and streamed."""
    wish = {
        "tools": TOOLS,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 200,
    }
    said = ask(node, **wish).choices[0]
    assert said.finish_reason == "tool_calls"
    [call] = said.message.tool_calls
    assert json.loads(call.function.arguments)["way"] in ("up", "down")
    streamed = litellm.stream_chunk_builder(list(ask(node, **wish, stream=True)))
    [again] = streamed.choices[0].message.tool_calls
    assert again.function.arguments == call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "Done."}
    after = ask(node, messages=[*QUESTION, said.message, result], tools=TOOLS, max_tokens=8)
    assert after.usage.prompt_tokens > 0


def test_structured_output_is_of_its_class(node: Node) -> None:
    """A class is as good as a schema."""
    reply = ask(node, response_format=Weather, max_tokens=64, temperature=1.5, seed=5)
    Weather.model_validate_json(reply.choices[0].message.content)


def test_the_newer_form_and_vectors_are_understood(node: Node) -> None:
    """Responses and embeddings."""
    where = {"api_base": node.base_url, "api_key": node.key()}
    wish = {"model": MODEL, "input": "Tell me a story.", "max_output_tokens": 16, "temperature": 0}
    whole = litellm.responses(**wish, **where)
    events = list(litellm.responses(**wish, **where, stream=True))
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == whole.output[0].content[0].text
    assert events[0].type == "response.created"
    assert events[-1].response.incomplete_details.reason == "max_output_tokens"
    vectors = litellm.embedding(model=MODEL, input=["The fox ran.", "Bread."], **where)
    assert len(vectors.data) == 2
    assert sum(x * x for x in vectors.data[0]["embedding"]) == pytest.approx(1, abs=1e-3)


def test_other_forms_of_the_port_are_understood(node: Node) -> None:
    """Through Anthropic's and through Ollama's form."""
    anthropic = ask(node, model="anthropic/ember", api_base=node.address)
    assert anthropic.usage.completion_tokens == 24
    ollama = ask(node, model="ollama_chat/ember", api_base=node.address)
    assert ollama.choices[0].message.content == anthropic.choices[0].message.content
    chunks = list(ask(node, model="ollama_chat/ember", api_base=node.address, stream=True))
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.content == ollama.choices[0].message.content


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_errors_are_known_by_their_kind(node: Node, kind: str) -> None:
    """Programs shorten the conversation, ask for a key, or name another model."""
    model = f"{kind}/ember"
    base = node.base_url if kind == "openai" else node.address
    with pytest.raises(litellm.ContextWindowExceededError):
        ask(node, model=model, api_base=base, messages=QUESTION * 400)
    with pytest.raises(litellm.AuthenticationError):
        ask(node, model=model, api_base=base, api_key="wrong")
    with pytest.raises(litellm.NotFoundError):
        ask(node, model=f"{kind}/no-such-model", api_base=base)


def test_who_comes_too_many_is_told_when_to_try_again(node: Node) -> None:
    """The package reads the wait from the answer."""

    one_is_refused = threading.Event()

    def one(_: int) -> Any:
        try:
            return ask(node, max_tokens=1)
        except litellm.RateLimitError as error:
            one_is_refused.set()
            return error

    # Or replies might end before all have come.
    with Slowed(node.workers) as slowed, ThreadPoolExecutor(CROWD) as pool:
        answers = pool.map(one, range(CROWD))
        one_is_refused.wait(REFUSAL_SECONDS)
        slowed.end()
        refused = [answer for answer in answers if isinstance(answer, Exception)]
    assert refused
    for error in refused:
        assert int(error.response.headers["retry-after"]) >= 1

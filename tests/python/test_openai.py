"""The `openai` package, unchanged, against a running node and a household."""

import asyncio
import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

import openai
import pydantic
import pytest

from nodes import Node, Slowed

QUESTION = [{"role": "user", "content": "Tell me a story about a fire in the kitchen."}]
MODEL = "ember"
ME = "Kitchen laptop"
# Layers that the helpers offer; what lies outside stays with the asking device.
HELPERS = {"Study PC": "1-2", "Attic PC": "3-4"}
OFFER_SECONDS = 120
IDLE_SECONDS = 120
PARAMETERS = {
    "type": "object",
    "properties": {"way": {"type": "string", "enum": ["up", "down"]}},
    "required": ["way"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "go", "description": "Goes.", "parameters": PARAMETERS},
    }
]
# A reply of hundreds of tokens: so hot that no end of turn is likely to come.
LONG = {
    "model": MODEL,
    "messages": QUESTION,
    "temperature": 10,
    "top_p": 1,
    "seed": 1,
    "max_tokens": 800,
    "extra_body": {"top_k": 0, "min_p": 0},
}


class Weather(pydantic.BaseModel):
    """What a structured reply is read into."""

    rain: bool
    sky: Literal["grey", "blue"]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open, computing alone."""
    with Node(ME, with_port=True) as node:
        yield node


@pytest.fixture(scope="module")
def household() -> Iterator[list[Node]]:
    """A node with its port open and two helpers that compute its middle layers."""
    with ExitStack() as stack:
        me = stack.enter_context(Node(ME, with_port=True))
        helpers = [stack.enter_context(Node(n, layers=layers)) for n, layers in HELPERS.items()]
        for helper in helpers:
            shown = helper.show_code()
            me.ask("pair", shown.code, "--with", shown.address, "--trust", "trusted")
            shown.wait_until_used()
            helper.ask("devices", "trust", ME, "trusted")
            helper.share(True)
        end = time.monotonic() + OFFER_SECONDS
        while not all(device["lends"] for device in me.devices() if device["paired"]):
            assert time.monotonic() < end, f"nothing is lent: {me.devices()}"
            time.sleep(0.1)
        yield [me, *helpers]


@pytest.fixture
def client(node: Node) -> openai.OpenAI:
    """The package as a program would set it up. It must not hide a failure by trying again."""
    return client_of(node)


def test_the_built_in_model_is_listed(client: openai.OpenAI) -> None:
    """A fresh node offers a model with nothing downloaded."""
    models = client.models.list()
    assert MODEL in [model.id for model in models]
    one = client.models.retrieve(MODEL)
    assert one.object == "model"
    assert one.created > 0


def test_a_chat_is_answered(client: openai.OpenAI) -> None:
    """A plain request: text, reason to finish and full usage."""
    reply = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=24
    )
    choice = reply.choices[0]
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert reply.usage
    assert reply.usage.prompt_tokens > 0
    assert 0 < reply.usage.completion_tokens <= 24
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_a_stream_says_the_same_as_a_plain_reply(client: openai.OpenAI) -> None:
    """Streamed pieces add up to the plain reply; exactly one of them says why it ended."""
    wish = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
    plain = client.chat.completions.create(**wish)
    chunks = list(client.chat.completions.create(**wish, stream=True))
    assert all(chunk.choices for chunk in chunks), "nobody asked for a usage chunk"
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert "".join(pieces) == plain.choices[0].message.content
    assert len([piece for piece in pieces if piece]) > 1, "it came in one lump"
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    assert reasons[-1] == plain.choices[0].finish_reason
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_stream_ends_with_usage_when_asked(client: openai.OpenAI) -> None:
    """`include_usage` adds one last chunk without choices."""
    stream = client.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        temperature=0,
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    last = list(stream)[-1]
    assert last.choices == []
    assert last.usage
    assert last.usage.completion_tokens <= 8


def test_the_same_seed_gives_the_same_reply(client: openai.OpenAI) -> None:
    """Chance comes from the seed alone."""
    wish = {"model": MODEL, "messages": QUESTION, "temperature": 1.0, "max_tokens": 16, "seed": 7}
    texts = {client.chat.completions.create(**wish).choices[0].message.content for _ in range(2)}
    assert len(texts) == 1


def test_a_stop_string_ends_the_reply_and_is_not_shown(client: openai.OpenAI) -> None:
    """The stop string is taken from the very reply that it cuts."""
    wish = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
    whole = client.chat.completions.create(**wish).choices[0].message.content
    assert whole
    stop = whole[len(whole) // 2 :][:3]
    cut = client.chat.completions.create(**wish, stop=stop).choices[0]
    assert cut.message.content == whole[: whole.index(stop)]
    assert cut.finish_reason == "stop"


def test_log_probabilities_come_with_every_token(client: openai.OpenAI) -> None:
    """At temperature 0 each token is the likeliest of those that are listed."""
    reply = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=6, logprobs=True, top_logprobs=2
    )
    odds = reply.choices[0].logprobs
    assert odds and odds.content
    for token in odds.content:
        assert [token.token, token.logprob] == [
            token.top_logprobs[0].token,
            token.top_logprobs[0].logprob,
        ]
        assert token.logprob <= 0


def test_tools_are_called_and_their_results_read(client: openai.OpenAI) -> None:
    """A call is forced, whole and streamed; its result goes back."""
    wish = {
        "model": MODEL,
        "messages": QUESTION,
        "tools": TOOLS,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0,
        "max_tokens": 200,
    }
    choice = client.chat.completions.create(**wish).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls
    call = choice.message.tool_calls[0]
    assert call.function.name == "go"
    assert json.loads(call.function.arguments)["way"] in ("up", "down")
    # The package's own reader of streams puts the pieces together.
    with client.chat.completions.stream(**wish) as stream:
        streamed = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed
    assert [one.function.arguments for one in streamed] == [call.function.arguments]
    result = {"role": "tool", "tool_call_id": call.id, "content": "Done."}
    history = [*QUESTION, choice.message, result]
    reply = client.chat.completions.create(
        model=MODEL, messages=history, tools=TOOLS, max_tokens=8
    )
    assert reply.usage and reply.usage.prompt_tokens > 0


def test_structured_output_keeps_to_its_schema(client: openai.OpenAI) -> None:
    """The package makes the schema of a class and reads the reply back into it."""
    reply = client.chat.completions.parse(
        model=MODEL,
        messages=QUESTION,
        response_format=Weather,
        max_tokens=64,
        temperature=1.5,
        seed=5,
    )
    weather = reply.choices[0].message.parsed
    assert weather
    assert weather.sky in ("grey", "blue")
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"$ref": "https://example.com/x"}},
            },
        )
    assert "example.com" in caught.value.message


def test_vectors_come_as_numbers(client: openai.OpenAI) -> None:
    """The package asks for base64 by itself and decodes it."""
    texts = ["The fox ran up the hill.", "Bread is in the oven."]
    usual = client.embeddings.create(model=MODEL, input=texts)
    plain = client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    assert len(usual.data) == 2
    for decoded, sent in zip(usual.data, plain.data, strict=True):
        assert sum(number * number for number in decoded.embedding) == pytest.approx(1, abs=1e-3)
        assert decoded.embedding == pytest.approx(sent.embedding, abs=1e-6)
    tokens = client.embeddings.create(model=MODEL, input=[[5, 9, 12], [7]], dimensions=8)
    assert [len(one.embedding) for one in tokens.data] == [8, 8]


def test_plain_text_is_continued(client: openai.OpenAI) -> None:
    """Two prompts, whole and streamed."""
    wish = {"model": MODEL, "prompt": ["Once upon a time", "The fox"], "max_tokens": 8}
    whole = client.completions.create(**wish, temperature=0)
    texts = ["", ""]
    for chunk in client.completions.create(**wish, temperature=0, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices]


def test_responses_come_whole_and_as_typed_events(client: openai.OpenAI) -> None:
    """Also from an earlier one; one that is not kept is refused."""
    wish = {"model": MODEL, "input": "Tell me a story.", "max_output_tokens": 12, "temperature": 0}
    whole = client.responses.create(**wish)
    assert whole.output_text
    with client.responses.stream(**wish) as stream:
        events = list(stream)
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == whole.output_text
    assert events[0].type == "response.created"
    assert events[-1].type in ("response.completed", "response.incomplete")
    tool = {"type": "function", "name": "go", "parameters": PARAMETERS, "strict": True}
    called = client.responses.create(
        **{**wish, "max_output_tokens": 200},
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    assert called.output[0].type == "function_call"
    more = client.responses.create(**wish, previous_response_id=whole.id)
    assert more.usage.input_tokens > whole.usage.input_tokens
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**wish, previous_response_id="resp_1")
    assert caught.value.param == "previous_response_id"


def test_a_wrong_key_is_refused(node: Node) -> None:
    """401 with a body that the package reads as its own error."""
    stranger = openai.OpenAI(base_url=node.base_url, api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError) as caught:
        stranger.models.list()
    assert caught.value.status_code == 401
    assert_error_shape(caught.value)


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    """404 with the code that clients branch on, and a sentence that names what there is."""
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=QUESTION)
    assert caught.value.status_code == 404
    assert caught.value.code == "model_not_found"
    assert_error_shape(caught.value)
    assert MODEL in caught.value.message


def test_a_bad_wish_is_the_callers_mistake(client: openai.OpenAI) -> None:
    """400, never silently something else."""
    for wish in (
        {"n": 17},
        {"temperature": -1},
        {"max_tokens": -2},
        {"response_format": {"type": "xml"}},
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fly"}}},
        {"messages": QUESTION * 400},
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**{"model": MODEL, "messages": QUESTION, **wish})
        assert_error_shape(caught.value)
    assert caught.value.code == "context_length_exceeded"


def test_a_body_that_is_too_large_is_said_to_be(client: openai.OpenAI) -> None:
    """The package hears why instead of losing its connection."""
    messages = [{"role": "user", "content": "x" * (8 << 20)}]
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model=MODEL, messages=messages)
    assert caught.value.status_code == 413
    assert_error_shape(caught.value)


def test_messages_come_in_every_shape(client: openai.OpenAI) -> None:
    """Parts, empty contents and the newer name of the system's role."""
    messages = [
        {"role": "developer", "content": "You are brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "Go on."},
    ]
    reply = client.chat.completions.create(
        model=MODEL, messages=messages, max_completion_tokens=8, temperature=0
    )
    assert reply.choices[0].message.content


def test_the_raw_response_is_as_documented(client: openai.OpenAI) -> None:
    """Headers that clients and proxies act on, seen through the package."""
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=QUESTION, max_tokens=4
    )
    assert raw.status_code == 200
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().choices[0].finish_reason == "length"
    with client.chat.completions.with_streaming_response.create(
        model=MODEL, messages=QUESTION, max_tokens=4, stream=True
    ) as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-cache"
        lines = [line for line in stream.iter_lines() if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"


def test_many_asynchronous_clients_wait_their_turn(node: Node) -> None:
    """A burst like the one after each message of a chat window: all are answered the same."""
    wish = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 8}

    async def burst() -> list[str | None]:
        async with openai.AsyncOpenAI(
            base_url=node.base_url, api_key=node.key(), max_retries=0
        ) as client:

            async def one(stream: bool) -> str | None:
                if not stream:
                    reply = await client.chat.completions.create(**wish)
                    return reply.choices[0].message.content
                chunks = await client.chat.completions.create(**wish, stream=True)
                return "".join([c.choices[0].delta.content or "" async for c in chunks])

            return await asyncio.gather(*(one(stream=number % 2 == 0) for number in range(16)))

    assert len(set(asyncio.run(burst()))) == 1


def test_leaving_a_stream_ends_the_reply(client: openai.OpenAI, node: Node) -> None:
    """The reply is dropped, not made to its end: only whole replies are counted."""
    before = whole_replies(node)
    # Or the reply might be whole before this client has read its first words.
    with Slowed(node.workers):
        stream = client.chat.completions.create(**LONG, stream=True)
        assert [chunk for chunk, _ in zip(stream, range(3))]
        stream.close()
        end = time.monotonic() + IDLE_SECONDS
        while not node.ask("share").strip().endswith("idle"):
            assert time.monotonic() < end, "the reply goes on"
            time.sleep(0.05)
    assert whole_replies(node) == before
    client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=1)
    assert whole_replies(node) == before + 1


def test_a_household_answers_as_one_device_does(
    client: openai.OpenAI, household: list[Node]
) -> None:
    """A program cannot tell where the layers were computed: the text is the same."""
    wish = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 48}
    alone = client.chat.completions.create(**wish).choices[0]
    together = client_of(household[0]).chat.completions.create(**wish).choices[0]
    assert together.message.content == alone.message.content
    assert together.finish_reason == alone.finish_reason


def test_a_helper_that_dies_does_not_end_the_stream(
    client: openai.OpenAI, household: list[Node]
) -> None:
    """The text goes on; what happened travels as a comment, which the package ignores."""
    wish = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 96}
    alone = client.chat.completions.create(**wish).choices[0]
    me, helper, _ = household
    text, comments, reason = "", [], None
    # Or the reply might be whole before this client has read its first words.
    with (
        Slowed(me.workers) as slowed,
        client_of(me).chat.completions.with_streaming_response.create(**wish, stream=True) as stream,
    ):
        for line in stream.iter_lines():
            if line.startswith(":"):
                comments.append(line)
            if not line.startswith("data: {"):
                continue
            choice = json.loads(line.removeprefix("data: "))["choices"][0]
            if choice["delta"].get("content") and not text:
                os.kill(helper.process_id, signal.SIGKILL)
                slowed.end()
            text += choice["delta"].get("content", "")
            reason = choice["finish_reason"] or reason
    assert text == alone.message.content
    assert reason == alone.finish_reason
    assert any(helper.name in comment for comment in comments), comments


def client_of(node: Node) -> openai.OpenAI:
    """The package as a program would set it up for a node."""
    return openai.OpenAI(base_url=node.base_url, api_key=node.key(), max_retries=0)


def whole_replies(node: Node) -> int:
    """Replies that the node has made to their end, from its metrics."""
    request = urllib.request.Request(
        node.base_url.removesuffix("/v1") + "/metrics",
        headers={"Authorization": f"Bearer {node.key()}"},
    )
    with urllib.request.urlopen(request) as answer:
        lines = answer.read().decode().splitlines()
    name = "distributed_inference_first_token_ms_count "
    return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))


def assert_error_shape(error: openai.APIStatusError) -> None:
    """The body is `{"error": {message, type, param, code}}`; the package unwraps the outer layer."""
    body = error.response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    assert body["error"]["type"]

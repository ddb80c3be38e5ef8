"""The `openai` package, unchanged, against a running node."""

from collections.abc import Iterator

import openai
import pytest

from nodes import Node

QUESTION = [{"role": "user", "content": "Tell me a story about a fire in the kitchen."}]
MODEL = "ember"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open, computing alone."""
    with Node("Kitchen laptop", with_port=True) as node:
        yield node


@pytest.fixture
def client(node: Node) -> openai.OpenAI:
    """The package as a program would set it up. It must not hide a failure by trying again."""
    return openai.OpenAI(base_url=node.base_url, api_key=node.key(), max_retries=0)


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
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=QUESTION, n=2)
    assert_error_shape(caught.value)


def assert_error_shape(error: openai.APIStatusError) -> None:
    """The body is `{"error": {message, type, param, code}}`; the package unwraps the outer layer."""
    body = error.response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    assert body["error"]["type"]

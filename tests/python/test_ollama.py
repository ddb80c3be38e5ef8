"""The `ollama` package, unchanged, against a running node."""

from collections.abc import Iterator

import ollama
import pytest

from nodes import Node

QUESTION = [{"role": "user", "content": "Tell me a story about a fire in the kitchen."}]
MODEL = "ember"
SHORT = {"temperature": 0, "num_predict": 24}
SCHEMA = {
    "type": "object",
    "properties": {"rain": {"type": "boolean"}, "sky": {"type": "string", "enum": ["grey"]}},
    "required": ["rain", "sky"],
    "additionalProperties": False,
}


def go(way: str) -> str:
    """Goes.

    Args:
      way: Up or down.

    Returns:
      Where one is then.
    """
    return way


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with Node("Kitchen laptop", with_port=True) as node:
        yield node


@pytest.fixture
def client(node: Node) -> ollama.Client:
    """The package as a program would set it up."""
    return client_of(node, node.key())


def test_models_are_listed_and_shown(client: ollama.Client) -> None:
    """The built-in one, with what its file is."""
    assert [model.model for model in client.list().models] == [MODEL]
    shown = client.show(MODEL)
    assert "completion" in shown.capabilities
    assert shown.modelinfo["general.architecture"] == shown.details.family
    client.generate(MODEL)
    client.chat(MODEL, QUESTION, options={"num_predict": 1})
    assert [model.model for model in client.ps().models] == [MODEL]


def test_a_stream_says_the_same_as_a_plain_reply(client: ollama.Client) -> None:
    """Chat and text, whole and in lines."""
    plain = client.chat(MODEL, QUESTION, options=SHORT)
    assert plain.message.content
    assert plain.done_reason == "length"
    assert plain.eval_count == 24
    lines = list(client.chat(MODEL, QUESTION, options=SHORT, stream=True))
    assert "".join(line.message.content or "" for line in lines) == plain.message.content
    assert [line.done for line in lines].count(True) == 1
    assert lines[-1].eval_count == plain.eval_count
    text = QUESTION[0]["content"]
    assert client.generate(MODEL, text, options=SHORT).response == plain.message.content
    pieces = client.generate(MODEL, text, options=SHORT, stream=True)
    assert "".join(piece.response for piece in pieces) == plain.message.content


def test_a_reply_keeps_to_its_schema(client: ollama.Client) -> None:
    """Structured output, as the package documents it."""
    options = {"temperature": 1.5, "seed": 5, "num_predict": 64}
    reply = client.chat(MODEL, QUESTION, format=SCHEMA, options=options)
    assert '"rain"' in (reply.message.content or "")


def test_tools_are_offered_and_their_results_read(client: ollama.Client) -> None:
    """A function is turned into a tool by the package; the story model calls none by itself."""
    plain = client.chat(MODEL, QUESTION, options=SHORT)
    offered = client.chat(MODEL, QUESTION, tools=[go], options=SHORT)
    assert offered.prompt_eval_count > plain.prompt_eval_count
    call = {"function": {"name": "go", "arguments": {"way": "up"}}}
    history = [
        *QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "On the hill.", "tool_name": "go"},
    ]
    after = client.chat(MODEL, history, tools=[go], options=SHORT)
    assert after.prompt_eval_count > offered.prompt_eval_count


def test_vectors_have_length_one(client: ollama.Client) -> None:
    """Several at once, and the older way of one."""
    texts = ["The fox ran up the hill.", "Bread is in the oven."]
    vectors = client.embed(MODEL, texts).embeddings
    assert len(vectors) == len(texts)
    for vector in vectors:
        assert sum(number * number for number in vector) == pytest.approx(1, abs=1e-3)
    assert client.embeddings(MODEL, texts[0]).embedding == pytest.approx(vectors[0], abs=1e-6)


def test_what_is_here_is_pulled_at_once(client: ollama.Client) -> None:
    """Whole and as lines."""
    assert client.pull(MODEL).status == "success"
    assert [line.status for line in client.pull(MODEL, stream=True)] == ["success"]


def test_errors_are_the_packages_own(client: ollama.Client, node: Node) -> None:
    """A status and one sentence."""
    for call, status in (
        (lambda: client_of(node, "wrong").list(), 401),
        (lambda: client.chat("no-such-model", QUESTION), 404),
        (lambda: client.pull("no-such-model"), 400),
        (lambda: client.generate(MODEL, "a", context=[1]), 400),
    ):
        with pytest.raises(ollama.ResponseError) as caught:
            call()
        assert caught.value.status_code == status
        assert caught.value.error
    with pytest.raises(ollama.ResponseError):
        list(client.chat("no-such-model", QUESTION, stream=True))


def client_of(node: Node, key: str) -> ollama.Client:
    """A client of a node with a key."""
    return ollama.Client(host=node.address, headers={"Authorization": f"Bearer {key}"})

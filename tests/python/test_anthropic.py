"""The `anthropic` package, unchanged, against a running node."""

from collections.abc import Iterator

import anthropic
import pytest

from nodes import Node

QUESTION = [{"role": "user", "content": "Tell me a story about a fire in the kitchen."}]
MODEL = "ember"
PARAMETERS = {
    "type": "object",
    "properties": {"way": {"type": "string", "enum": ["up", "down"]}},
    "required": ["way"],
    "additionalProperties": False,
}
TOOLS = [{"name": "go", "description": "Goes.", "input_schema": PARAMETERS}]
# The package has no word for it any more, the interface does.
COOL = {"temperature": 0}
# One call, whatever the story model would rather do.
CALL = {
    "model": MODEL,
    "messages": QUESTION,
    "tools": TOOLS,
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "max_tokens": 300,
    "extra_body": COOL,
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node with its port open."""
    with Node("Kitchen laptop", with_port=True) as node:
        yield node


@pytest.fixture
def client(node: Node) -> anthropic.Anthropic:
    """The package as a program would set it up. It must not hide a failure by trying again."""
    return anthropic.Anthropic(base_url=node.address, api_key=node.key(), max_retries=0)


def test_a_stream_says_the_same_as_a_plain_message(client: anthropic.Anthropic) -> None:
    """Text, reason and usage; the package's own reader puts the stream together."""
    wish = {"model": MODEL, "messages": QUESTION, "max_tokens": 24, "extra_body": COOL}
    plain = client.messages.create(**wish, system="You are brief.")
    assert plain.content[0].type == "text"
    assert plain.content[0].text
    assert plain.stop_reason == "max_tokens"
    assert plain.usage.output_tokens == 24
    with client.messages.stream(**wish, system="You are brief.") as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == plain.content[0].text
    assert final.stop_reason == plain.stop_reason
    assert final.usage.output_tokens == plain.usage.output_tokens
    counted = client.messages.count_tokens(
        model=MODEL, messages=QUESTION, system="You are brief."
    )
    read = plain.usage.input_tokens + (plain.usage.cache_read_input_tokens or 0)
    assert counted.input_tokens == read


def test_tools_are_called_whole_and_streamed_and_their_results_read(
    client: anthropic.Anthropic,
) -> None:
    """The whole round: call, result, next message."""
    message = client.messages.create(**CALL)
    assert message.stop_reason == "tool_use"
    call = message.content[0]
    assert call.type == "tool_use"
    assert call.name == "go"
    assert call.input["way"] in ("up", "down")
    with client.messages.stream(**CALL) as stream:
        streamed = stream.get_final_message()
    assert streamed.content[0].input == call.input
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Done."}
    after = client.messages.create(
        model=MODEL,
        tools=TOOLS,
        messages=[
            *QUESTION,
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [result]},
        ],
        max_tokens=8,
    )
    assert after.usage.output_tokens > 0


def test_a_stop_sequence_is_named(client: anthropic.Anthropic) -> None:
    """The package's programs branch on it."""
    wish = {"model": MODEL, "messages": QUESTION, "max_tokens": 24, "extra_body": COOL}
    text = client.messages.create(**wish).content[0].text
    stop = text[len(text) // 2 :][:3]
    message = client.messages.create(**wish, stop_sequences=[stop])
    assert message.stop_reason == "stop_sequence"
    assert message.stop_sequence == stop


def test_models_are_listed(client: anthropic.Anthropic) -> None:
    """In the package's own form."""
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).display_name


def test_errors_are_the_packages_own(client: anthropic.Anthropic, node: Node) -> None:
    """Statuses and kinds that programs act on."""
    stranger = anthropic.Anthropic(base_url=node.address, api_key="wrong", max_retries=0)
    with pytest.raises(anthropic.AuthenticationError):
        stranger.models.list()
    bearer = anthropic.Anthropic(base_url=node.address, auth_token=node.key(), max_retries=0)
    assert [model.id for model in bearer.models.list()] == [MODEL]
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.create(model="no-such-model", messages=QUESTION, max_tokens=1)
    assert caught.value.body["error"]["type"] == "not_found_error"
    assert caught.value.request_id == caught.value.body["request_id"]
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(model=MODEL, messages=QUESTION * 400, max_tokens=1)
    assert "prompt is too long" in caught.value.message
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(
            model=MODEL, messages=[{"role": "user", "content": [picture]}], max_tokens=1
        )
    assert "image" in caught.value.message

"""Streams a chat reply from Inglenook's port and says which computers made it.

    INGLENOOK_KEY="$(nook key)" python3 who_helped.py "Tell me a story."

Only Python's own library is used. The `openai` package works too: give it the same address and key.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

URL = os.environ.get("INGLENOOK_URL", "http://127.0.0.1:4587/v1")
# The model that was added last; `GET /v1/models` lists all.
MODEL = os.environ.get("INGLENOOK_MODEL", "default")


def ask(question: str) -> urllib.request.Request:
    """A request for a streamed reply that also says what happens between devices."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 200,
        "stream": True,
        "inglenook": True,
    }
    return urllib.request.Request(
        f"{URL}/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['INGLENOOK_KEY']}",
            "Content-Type": "application/json",
        },
    )


def events(request: urllib.request.Request) -> Iterator[dict[str, Any]]:
    """The objects of a stream of server-sent events, until its end."""
    with urllib.request.urlopen(request) as stream:
        for line in stream:
            text = line.decode().strip()
            # Comments begin with a colon and keep the connection awake.
            if text.startswith("data: ") and text != "data: [DONE]":
                yield json.loads(text.removeprefix("data: "))


def main() -> None:
    """Prints the reply as it comes, then who computed it."""
    question = " ".join(sys.argv[1:]) or "Tell me a story about a fire in the kitchen."
    route: list[dict[str, Any]] = []
    try:
        for event in events(ask(question)):
            if "error" in event:
                sys.exit(f"\nthe reply ended early: {event['error']['message']}")
            for choice in event.get("choices", []):
                print(choice["delta"].get("content") or "", end="", flush=True)
            route = event.get("inglenook", {}).get("route", route)
    except urllib.error.HTTPError as error:
        sys.exit(json.load(error)["error"]["message"])
    print()
    for part in route:
        layers = part["layers"]
        what = f"layers {layers[0]} to {layers[1]}" if layers else "the ends of the model"
        print(f"{part['device']}: {what}", file=sys.stderr)


if __name__ == "__main__":
    main()

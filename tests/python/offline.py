"""Programs that find nobody but this computer: what they would report is not sent, and is noticed.

Importing it switches off what the programs are known to report and to fetch.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

# A person's own variables must neither reach the node nor lead anywhere else.
FOREIGN = ("OPENAI_", "ANTHROPIC_", "LITELLM_", "LANGCHAIN_", "LANGSMITH_", "LLM_")
SWITCHED_OFF = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}
# For programs that run on their own: a way out that nobody keeps.
NOBODY = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}
HERE = ("127.0.0.1", "localhost", "::1", None)

for name in [name for name in os.environ if name.startswith(FOREIGN)]:
    del os.environ[name]
os.environ.update(SWITCHED_OFF)


@contextmanager
def enforced() -> Iterator[None]:
    """No other computer is found meanwhile; whoever looked for one fails the test in the end."""
    find, sought = socket.getaddrinfo, []

    def only_here(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in HERE:
            sought.append(name)
            raise socket.gaierror(socket.EAI_FAIL, f"{name} is not this computer")
        return find(host, *rest, **more)

    with mock.patch("socket.getaddrinfo", only_here):
        yield
    assert not sought, f"a program looked for other computers: {sought}"

"""A desktop's notices on the session bus: takes what programs show, and clicks it as a person does.

[NoticeBoard] owns `org.freedesktop.Notifications`. Like the tray host it runs on an event loop in a
thread of its own, so that tests stay plain functions.
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method, dbus_signal

NAME = "org.freedesktop.Notifications"
PATH = "/org/freedesktop/Notifications"
STOP_SECONDS = 10


@dataclass
class Notice:
    """What a program showed."""

    number: int
    program: str
    title: str
    text: str
    actions: list[str]


class Server(ServiceInterface):
    """The object that programs show notices with."""

    def __init__(self, capabilities: Sequence[str]) -> None:
        super().__init__(NAME)
        self.notices: list[Notice] = []
        self._capabilities = list(capabilities)

    @dbus_method()
    def GetCapabilities(self) -> "as":  # noqa: F722, N802
        """What this desktop's notices can do."""
        return self._capabilities

    @dbus_method()
    def GetServerInformation(self) -> "ssss":  # noqa: F821, N802
        """Who shows them."""
        return ["board", "tests", "1", "1.2"]

    @dbus_method()
    def Notify(  # noqa: N802, PLR0913
        self,
        app_name: "s",  # noqa: F821
        replaces_id: "u",  # noqa: F821
        app_icon: "s",  # noqa: F821
        summary: "s",  # noqa: F821
        body: "s",  # noqa: F821
        actions: "as",  # noqa: F722
        hints: "a{sv}",  # noqa: F722
        expire_timeout: "i",  # noqa: F821
    ) -> "u":  # noqa: F821
        """A program shows a notice."""
        number = len(self.notices) + 1
        self.notices.append(Notice(number, app_name, summary, body, list(actions)))
        return number

    @dbus_method()
    def CloseNotification(self, number: "u"):  # noqa: F821, N802
        """A program takes one back."""

    @dbus_signal()
    def ActionInvoked(self, number, action) -> "us":  # noqa: F821, N802
        """Somebody chose an action."""
        return [number, action]

    @dbus_signal()
    def NotificationClosed(self, number, reason) -> "uu":  # noqa: F821, N802
        """One is gone."""
        return [number, reason]


class NoticeBoard:
    """A desktop that shows notices, with a person in front of it."""

    def __init__(self, capabilities: Sequence[str] = ("actions", "body", "body-markup")) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._bus: MessageBus
        self._server = Server(capabilities)
        self._run(self._start())

    @property
    def notices(self) -> list[Notice]:
        """All that were shown, oldest first."""
        return list(self._server.notices)

    def titled(self, title: str) -> list[Notice]:
        """Those with this headline."""
        return [notice for notice in self.notices if notice.title == title]

    def click(self, notice: Notice) -> None:
        """Clicks the notice itself."""
        assert "default" in notice.actions, f"nothing to click: {notice}"
        self._loop.call_soon_threadsafe(self._server.ActionInvoked, notice.number, "default")

    def close(self) -> None:
        """Leaves the bus."""
        self._loop.call_soon_threadsafe(self._bus.disconnect)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)

    async def _start(self) -> None:
        self._bus = await MessageBus().connect()
        self._bus.export(PATH, self._server)
        await self._bus.request_name(NAME)

    def _run(self, work: Coroutine) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

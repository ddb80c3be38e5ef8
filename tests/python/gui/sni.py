"""A tray host on the session bus: reads and clicks tray menus as a desktop's panel does.

[Panel] owns the bus name of a StatusNotifierWatcher, so tray icons register with it; the menu is
read and clicked through `com.canonical.dbusmenu`. Everything runs on one event loop in a thread of
its own, so that tests stay plain functions.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from dbus_fast import Message, MessageType, PropertyAccess, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property, dbus_signal

WATCHER_NAME = "org.kde.StatusNotifierWatcher"
ITEM_INTERFACE = "org.kde.StatusNotifierItem"
MENU_INTERFACE = "com.canonical.dbusmenu"
CALL_SECONDS = 60
# They end a test that hangs; a busy machine may take a good part of it.
WAIT_SECONDS = 60
# What the bus answers for one that has left.
NO_REPLY = "org.freedesktop.DBus.Error.NoReply"
# What GDBus answers for a path at which nothing is exported, and for an interface that is not there.
NOT_THERE = {
    "org.freedesktop.DBus.Error.UnknownMethod",
    "org.freedesktop.DBus.Error.UnknownObject",
    "org.freedesktop.DBus.Error.UnknownInterface",
}


class NotOnTheBusError(RuntimeError):
    """The object asked is not on the bus, or not yet."""


class LeftWithoutAnswerError(RuntimeError):
    """Whoever was asked has left the bus instead of answering."""


@dataclass
class MenuEntry:
    """One entry of a tray menu."""

    number: int
    label: str
    enabled: bool
    is_check: bool
    checked: bool


@dataclass
class TrayItem:
    """A tray icon: who owns it and where."""

    owner: str
    path: str


class Watcher(ServiceInterface):
    """The object with which tray icons register."""

    def __init__(self) -> None:
        super().__init__(WATCHER_NAME)
        self.items: list[TrayItem] = []
        self.registered = asyncio.Event()
        self._sender = ""

    def remember_sender(self, message: Message) -> None:
        """dbus-fast hides who calls a method, and libayatana sends a path only."""
        if message.member == "RegisterStatusNotifierItem":
            self._sender = message.sender

    @dbus_method()
    def RegisterStatusNotifierItem(self, service: "s"):  # noqa: F821, N802
        """Called by an application that shows a tray icon."""
        if service.startswith("/"):
            item = TrayItem(self._sender, service)
        else:
            item = TrayItem(service, "/StatusNotifierItem")
        self.items.append(item)
        self.StatusNotifierItemRegistered(item.owner + item.path)
        self.registered.set()

    @dbus_method()
    def RegisterStatusNotifierHost(self, service: "s"):  # noqa: F821, N802
        """Called by panels; there is only this one."""
        self.StatusNotifierHostRegistered()

    @dbus_property(access=PropertyAccess.READ)
    def RegisteredStatusNotifierItems(self) -> "as":  # noqa: F722, N802
        """All icons."""
        return [item.owner + item.path for item in self.items]

    @dbus_property(access=PropertyAccess.READ)
    def IsStatusNotifierHostRegistered(self) -> "b":  # noqa: F821, N802
        """Applications show an icon only when somebody displays it."""
        return True

    @dbus_property(access=PropertyAccess.READ)
    def ProtocolVersion(self) -> "i":  # noqa: F821, N802
        """The only version there is."""
        return 0

    @dbus_signal()
    def StatusNotifierItemRegistered(self, service) -> "s":  # noqa: F821, N802
        """A new icon."""
        return service

    @dbus_signal()
    def StatusNotifierHostRegistered(self):  # noqa: N802
        """A panel is there."""


class Panel:
    """A desktop's panel with one tray icon: waits for it, reads its menu, clicks."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._bus: MessageBus
        self._watcher: Watcher
        self._run(self._start())

    def wait_for_icon(self, seconds: float = WAIT_SECONDS) -> TrayItem:
        """The first icon that registers."""
        self._run(asyncio.wait_for(self._watcher.registered.wait(), seconds))
        return self._watcher.items[0]

    def properties(self, item: TrayItem) -> dict[str, Any]:
        """What the icon says of itself: Id, IconName, Menu, Status, Title…"""
        asked = Message(
            destination=item.owner,
            path=item.path,
            interface="org.freedesktop.DBus.Properties",
            member="GetAll",
            signature="s",
            body=[ITEM_INTERFACE],
        )
        return {name: value.value for name, value in self._call(asked)[0].items()}

    def menu(self, item: TrayItem) -> list[MenuEntry]:
        """The entries of the icon's menu, separators left out.

        An icon registers before its menu is on the bus, and a new menu takes the place of the one
        before at the same path: a panel asks again, and so does this one.
        """
        return wait_until(lambda: self._menu_now(item), "a menu on the bus", CALL_SECONDS)

    def _menu_now(self, item: TrayItem) -> list[MenuEntry]:
        try:
            path = self.properties(item).get("Menu")
            if not path:
                return []
            self._call(self._menu_call(item, path, "AboutToShow", "i", [0]))
            layout = self._call(self._menu_call(item, path, "GetLayout", "iias", [0, -1, []]))
        except NotOnTheBusError:
            return []
        return [entry for entry in flat(layout[1]) if entry.label]

    def click(self, item: TrayItem, label: str) -> None:
        """Clicks the entry with this label. Numbers change, labels are what a person sees.

        A person clicks what can be clicked: that is waited for.
        """

        def possible() -> MenuEntry | None:
            fits = (entry for entry in self.menu(item) if entry.label == label and entry.enabled)
            return next(fits, None)

        entry = wait_until(possible, f"{label!r} to be possible")
        path = self.properties(item)["Menu"]
        now = int(time.time()) & 0xFFFF_FFFF
        body = [entry.number, "clicked", Variant("i", 0), now]
        # A click on Quit or Restart ends whoever would answer: no panel asks for more.
        with contextlib.suppress(LeftWithoutAnswerError):
            self._call(self._menu_call(item, path, "Event", "isvu", body))

    def close(self) -> None:
        """Leaves the bus, as a panel that crashes does."""
        self._loop.call_soon_threadsafe(self._bus.disconnect)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)

    async def _start(self) -> None:
        self._bus = await MessageBus().connect()
        self._watcher = Watcher()
        self._bus.add_message_handler(self._watcher.remember_sender)
        self._bus.export("/StatusNotifierWatcher", self._watcher)
        await self._bus.request_name(WATCHER_NAME)

    def _run(self, work: Coroutine) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _call(self, message: Message) -> list[Any]:
        reply = self._run(asyncio.wait_for(self._bus.call(message), CALL_SECONDS))
        if reply.message_type is MessageType.ERROR:
            failure = NotOnTheBusError if reply.error_name in NOT_THERE else RuntimeError
            if reply.error_name == NO_REPLY:
                failure = LeftWithoutAnswerError
            raise failure(f"{message.member}: {reply.error_name}: {reply.body}")
        return reply.body

    @staticmethod
    def _menu_call(item: TrayItem, path: str, member: str, signature: str, body: list) -> Message:
        return Message(
            destination=item.owner,
            path=path,
            interface=MENU_INTERFACE,
            member=member,
            signature=signature,
            body=body,
        )


def flat(node: list) -> list[MenuEntry]:
    """A menu layout as a list, in the order a person reads it."""
    number, properties, children = node
    values = {name: value.value for name, value in properties.items()}
    entry = MenuEntry(
        number=number,
        # An underscore marks the next letter as the key to press; it is not shown.
        label=values.get("label", "").replace("__", "\0").replace("_", "").replace("\0", "_"),
        enabled=values.get("enabled", True),
        is_check=values.get("toggle-type", "") == "checkmark",
        checked=values.get("toggle-state", 0) == 1,
    )
    entries = [entry]
    for child in children:
        entries += flat(child.value if isinstance(child, Variant) else child)
    return entries


def wait_until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Looks again until `condition` gives something true; a failure says what was waited for."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.1)

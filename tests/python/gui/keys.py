"""Keys of the whole display: pressing them, and holding them as another program would."""

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

SHIFT, CONTROL = 1 << 0, 1 << 2
SPACE = 0x20
ASYNCHRONOUS = 1


def press(keys: str) -> None:
    """Presses keys together, as `ctrl+alt+space`, whatever has the focus."""
    subprocess.run(["xdotool", "key", "--clearmodifiers", keys], check=True, timeout=30)


@contextmanager
def taken(symbol: int, modifiers: int) -> Iterator[None]:
    """As long as this lasts, no other program gets these keys."""
    xlib = ctypes.CDLL("libX11.so.6")
    xlib.XOpenDisplay.restype = ctypes.c_void_p
    display = ctypes.c_void_p(xlib.XOpenDisplay(None))
    assert display, "no display"
    try:
        root = ctypes.c_ulong(xlib.XDefaultRootWindow(display))
        code = xlib.XKeysymToKeycode(display, ctypes.c_ulong(symbol))
        xlib.XGrabKey(display, code, modifiers, root, 0, ASYNCHRONOUS, ASYNCHRONOUS)
        xlib.XSync(display, 0)
        yield
    finally:
        xlib.XCloseDisplay(display)

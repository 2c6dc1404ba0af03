"""Being told to stop by a kill."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def polite_kill() -> Iterator[None]:
    """Let SIGTERM end the process as Ctrl-C does, with all cleanup, so that no file is left half-written."""

    def leave(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

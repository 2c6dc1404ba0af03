"""The error for a user's mistakes, and words for the system's errors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class GLNError(ValueError):
    """A user's mistake, explained in one sentence: what we got, what we expected, what to do.

    The command line prints it without a traceback; any other exception that escapes is a bug.
    """


def in_words(error: OSError) -> str:
    """Which file, and what is wrong with it."""
    return f"{error.filename or 'a file'}: {error.strerror or error}."


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

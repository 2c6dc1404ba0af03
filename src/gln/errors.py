"""The error for a user's mistakes, and words for the system's errors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class GLNError(ValueError):
    """A user's mistake, explained in one sentence: what we got, what we expected, what to do.

    The command line prints it without a traceback; any other exception that escapes is a bug.
    """


@contextmanager
def about(what: object) -> Iterator[None]:
    """Say what a mistake inside is about, before the mistake itself."""
    try:
        yield
    except GLNError as error:
        raise GLNError(f"{what}: {error}") from None


def instead(name: str, known: Iterable[str]) -> str:
    """What to do about a name that is not known: take the one it looks like, or choose from all."""
    names = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), names, 1, cutoff=0.7)
    return (
        f"did you mean {names[near[0]]}?" if near else f"choose from {', '.join(names.values()) or 'none'}."
    )


def needed(module: str, by: str, extra: str) -> Any:
    """The ``module`` of a library that only some need, or a sentence about how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise GLNError(f"{by} need {module.partition('.')[0]}; pip install 'gln[{extra}]'.") from None


def in_words(error: OSError) -> str:
    """Which file, and what is wrong with it."""
    return f"{escaped(str(error.filename or 'a file'))}: {error.strerror or error}."


def whole_text(text: str) -> str:
    """``text`` with what is no Unicode, such as bytes of a file's name, written as ``\\udcff``; the rest unchanged."""
    return text.encode("utf-8", "backslashreplace").decode()


def escaped(text: str) -> str:
    """``text``, perhaps from a stranger's file, without characters that steer a terminal: these are written out."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in whole_text(text)
    )


def quote(text: str) -> str:
    """Text from a user's file, shortened and safe to print."""
    text = " ".join(text.split())
    text = "".join(letter if letter.isprintable() else "?" for letter in text[:61])
    return repr(text) if len(text) <= 60 else repr(text[:60] + "…")


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

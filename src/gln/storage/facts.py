"""Plain facts, as JSON holds them, written atomically and read strictly: of bounded size, with the types we expect.

What a file must hold is written as Python types: a ``TypedDict`` or a dataclass for an object, ``list[str]``,
``int | None``, … A file that holds anything else, whoever wrote it, is refused in one sentence that says where.
"""

from __future__ import annotations

import dataclasses
import errno
import inspect
import json
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from gln.errors import GLNError
from gln.files import read_regular, write_atomically

MOST_BYTES = 2**24  # of a file of facts
LARGEST = 2**53  # the whole numbers that every reader of JSON keeps

Facts = dict[str, Any]  # plain data, as JSON holds it
T = TypeVar("T")


class Misfit(ValueError):
    """What is wrong with a value, without the file's name."""


def read_facts(path: Path) -> Facts:
    """The JSON object in ``path``."""
    return parse_facts(read_whole(path, MOST_BYTES), path)


def read_whole(path: Path, most: int) -> bytes:
    """The bytes of a regular file of at most ``most``."""
    try:
        return read_regular(path, most)
    except OSError as error:
        raise GLNError(f"{path} cannot be read ({error.strerror or error}); check the path.") from None


def parse_facts(text: bytes | str, path: Path) -> Facts:
    """As :func:`read_facts`, for JSON that ``path`` holds among other things."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):  # also bytes that are not UTF-8, and lists within lists …
        raise GLNError(
            f"{path} is not complete JSON: it is truncated or of another kind; copy it again."
        ) from None
    if not isinstance(value, dict):
        raise GLNError(f"{path} holds a JSON {type(value).__name__}; expected an object written by gln.")
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that people can read, atomically."""
    with clear_disk_errors(path):
        write_atomically(path, (to_json(value, indent=2) + "\n").encode())


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON in which NumPy's numbers, which a width read from an array is, are plain numbers."""
    return json.dumps(value, indent=indent, allow_nan=False, default=np.generic.item)


@contextmanager
def clear_disk_errors(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk into one clear sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GLNError(
                f"The disk is full: {path} could not be written, but what was there before is intact; "
                "free some space and resume."
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise GLNError(f"{path} cannot be written; choose a folder that you can write to.") from error
        raise


def as_kind(value: Any, kind: type[T], path: Path) -> T:
    """``value``, which ``path`` holds, if it is a ``kind``."""
    with naming_misfits(path):
        found: T = conform(value, kind)
        return found


@contextmanager
def naming_misfits(path: Path) -> Iterator[None]:
    """Turn a :class:`Misfit` into a sentence about ``path``."""
    try:
        yield
    except Misfit as error:
        raise GLNError(
            f"{path} is not what gln wrote ({error}); it was changed or damaged, so use another."
        ) from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity are not JSON


def conform(value: Any, kind: Any, name: str = "") -> Any:
    """``value`` as a ``kind``, with tuples and paths for lists and text where these are expected, or a Misfit."""
    if kind is Any:
        return _bounded(value, name)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (typing.Union, UnionType):
        problems = []
        for one in inner:
            try:
                return conform(value, one, name)
            except Misfit as error:
                problems.append(error)
        raise problems[0]
    if origin is Literal:
        if not any(value == word and type(value) is type(word) for word in inner):
            raise Misfit(f"{name} is {_shown(value)}, expected one of {', '.join(map(str, inner))}")
        return value
    if typing.is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)  # which the class itself does not look into
        free = {key for key, hint in hints.items() if get_origin(hint) is NotRequired}
        return _object(value, get_type_hints(kind), kind.__required_keys__ - free, name)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return kind(**accepted(kind, value, name))
    if origin in (list, tuple, Sequence) and isinstance(value, list):
        parts = [conform(part, inner[0], f"{name}[{place}]") for place, part in enumerate(value)]
        return tuple(parts) if origin is tuple else parts
    if origin is dict and isinstance(value, dict):
        return {key: conform(part, inner[1], _join(name, key)) for key, part in value.items()}
    if kind is Path and isinstance(value, str) and "\0" not in value:
        return Path(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _bounded(value, name)
    if type(value) is (NoneType if kind is None else kind):
        return _bounded(value, name)
    raise Misfit(f"{name or 'it'} is {_shown(value)}, expected {_words(kind)}")


def accepted(build: Callable[..., T], settings: Any, name: str = "") -> Facts:
    """``settings``, an object called ``name``, checked against the parameters of ``build``."""
    known = inspect.signature(build).parameters
    typed = inspect.getattr_static(build, "__init__") if isinstance(build, type) else build
    try:
        hints = get_type_hints(typed)
    except NameError:  # a class of the user's own, with names that only its type checker knows
        hints = {}
    more = {key for key, one in known.items() if one.kind is one.VAR_KEYWORD}
    required = {key for key, one in known.items() if one.default is one.empty} - more
    kinds = {key: hints.get(key, Any) for key in known}
    return _object(settings, kinds, required, name, closed=not more)


def _object(
    value: Any, kinds: Mapping[str, Any], required: Any, name: str, closed: bool = False
) -> dict[str, Any]:
    """``value``, an object with these members; unless it is ``closed``, others may be there too."""
    if not isinstance(value, dict):
        raise Misfit(f"{name or 'it'} is {_shown(value)}, expected an object")
    missing = next((key for key in kinds if key in required and key not in value), None)
    if missing is not None:
        raise Misfit(f"there is no {_join(name, missing)}")
    unknown = next((key for key in value if key not in kinds), None)
    if closed and unknown is not None:
        raise Misfit(f"{_join(name, unknown)} is not known; there are {', '.join(kinds)}")
    return {key: conform(part, kinds.get(key, Any), _join(name, key)) for key, part in value.items()}


def _bounded(value: Any, name: str) -> Any:
    """``value``; refuse numbers in it that are not finite or too large to be kept."""
    if isinstance(value, dict):
        return {key: _bounded(part, _join(name, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_bounded(part, name) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise Misfit(f"{name} is {value}, expected a finite number")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise Misfit(f"{name} is a whole number of {len(str(abs(value)))} digits, expected a smaller one")
    return value


def _join(name: str, key: str) -> str:
    return f"{name}.{key[:40]}" if name else key[:40]


def _shown(value: Any) -> str:
    """A value for a message: shortened, and what holds other values only by its type."""
    words = {dict: "an object", list: "a list", NoneType: "null"}
    return words.get(type(value)) or repr(value if not isinstance(value, str) else value[:40])


def _words(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "text"}
    origin = get_origin(kind)
    if origin in (list, tuple, Sequence):
        return "a list"
    return "an object" if origin is dict or kind is dict else words.get(kind, str(kind))


def check_threshold(value: float, path: Path) -> float:
    """Refuse a threshold in the file ``path`` that is no probability."""
    if not 0 <= value <= 1:
        raise GLNError(f"{path} holds the threshold {value}; expected a probability between 0 and 1.")
    return value

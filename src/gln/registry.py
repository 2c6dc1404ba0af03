"""A registry of classes that are chosen by name and built from settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from gln.errors import GLNError, instead


class Registered:
    """What is chosen by name: a dataclass whose fields are its settings."""

    name: ClassVar[str]  # given when it is registered

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Every setting and its default."""
        return {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    def settings(self) -> dict[str, Any]:
        """Every setting as plain data; ``type(self)(**settings)`` makes the same again."""
        return {name: getattr(self, name) for name in self.defaults()}

    def __str__(self) -> str:
        """The short form that :func:`parse_spec` reads, without defaults."""
        default = self.defaults()
        return write_spec(self.name, {k: v for k, v in self.settings().items() if v != default[k]})


T = TypeVar("T", bound=Registered)
C = TypeVar("C", bound=type[Registered])


class Registry(dict[str, type[T]], Generic[T]):
    """Registered classes by name.

    Args:
        kind: what messages call a registered class: family, baseline.
        setting: what messages call one of its settings.
        moved: names that are no longer here, with the end of a sentence that says where they are.
    """

    def __init__(self, kind: str, setting: str, moved: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._kind, self._setting, self._moved = kind, setting, moved or {}

    def register(self, name: str) -> Callable[[C], C]:
        """Class decorator that registers a class as ``name``."""

        def add(cls: C) -> C:
            if name in self:
                raise GLNError(f"A {self._kind} named {name!r} is already registered; choose another name.")
            cls.name = name
            self[name] = cls  # type: ignore[assignment]
            return cls

        return add

    def build(self, name: str, settings: Mapping[str, Any]) -> T:
        """Create an object of the class ``name`` after checking the names of its settings."""
        if name not in self and name in self._moved:
            raise GLNError(f"{name} has {self._moved[name]}")
        if name not in self:
            raise GLNError(f"There is no {self._kind} {name!r}; {instead(name, sorted(self))}")
        known = self[name].defaults()
        for setting in settings:
            if setting not in known:
                raise GLNError(f"{name} has no {self._setting} {setting!r}; {instead(setting, known)}")
        return self[name](**settings)


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``surfaces:points=400,kind=torus`` into its name and parameters."""
    name, _, rest = text.partition(":")
    parameters = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise GLNError(
                f"Got {part!r} in {text!r}; expected name=value, as in surfaces:points=400,kind=torus."
            )
        parameters[key] = read_value(value)
    return name, parameters


def write_spec(name: str, parameters: dict[str, Any]) -> str:
    """The inverse of :func:`parse_spec`."""
    settings = ",".join(f"{key}={write_value(value)}" for key, value in parameters.items())
    return f"{name}:{settings}".rstrip(":")


def read_value(word: str) -> Any:
    """Convert a word to the value it looks like: true, none, 3, 0.5, 20-80, text."""
    if word.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[word.lower()]
    low, dash, high = word.partition("-")
    if dash and low.isdigit() and high.isdigit():
        return int(low), int(high)
    for number in (int, float) if "_" not in word else ():  # Python takes 1_0 for ten
        try:
            return number(word)
        except ValueError:
            continue
    return word


def write_value(value: Any) -> str:
    """The inverse of :func:`read_value`."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return "-".join(map(str, value)) if isinstance(value, tuple) else str(value)

"""The short form used on the command line: ``name:parameter=value,parameter=value``."""

from __future__ import annotations

from typing import Any

from gln.errors import GLNError


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
    return f"{name}:{','.join(f'{key}={write_value(value)}' for key, value in parameters.items())}".rstrip(
        ":"
    )


def read_value(word: str) -> Any:
    """Convert a word to the value it looks like: true, none, 3, 0.5, 20-80, text."""
    if word.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[word.lower()]
    low, dash, high = word.partition("-")
    if dash and low.isdigit() and high.isdigit():
        return int(low), int(high)
    for number in (int, float):
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

"""Parsing numbers in rows of text."""

from __future__ import annotations

from gln.errors import GLNError
from gln.io.items import quote

LARGEST = 2**62  # keeps whole numbers far from the limits of int64


def floats(words: list[bytes], row: int) -> list[float]:
    """Parse numbers in a row of text."""
    try:
        return [float(word) for word in words]
    except ValueError:
        raise _not_numbers(words, row, "numbers") from None


def ints(words: list[bytes], row: int) -> list[int]:
    """Parse whole numbers in a row of text."""
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        raise _not_numbers(words, row, "whole numbers") from None
    if numbers and not -LARGEST < min(numbers) <= max(numbers) < LARGEST:
        raise _not_numbers(words, row, "smaller whole numbers")
    return numbers


def _not_numbers(words: list[bytes], row: int, expected: str) -> GLNError:
    return GLNError(f"row {row}: got {quote(b' '.join(words).decode('latin-1'))}; expected {expected}.")

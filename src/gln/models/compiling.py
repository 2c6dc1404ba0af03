"""Loops in machine code, where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Kernel = Callable[..., None]

# Sums may be added in another order, for vector instructions; infinities and NaN stay what they are.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@cache
def can_compile() -> bool:
    """Whether numba is here and fits the NumPy that is here; it is slow to import, so only when asked."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def compiled(function: Kernel) -> Kernel:
    """The machine code of a function, kept on disk where there is a folder for it.

    It runs without the interpreter's lock, so that several threads can take rows of their own.
    """
    import numba

    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(**OPTIONS)(function)

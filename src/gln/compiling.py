"""Loops in machine code, where numba is installed, and kernels for a GPU, where Triton is."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch

from gln.vectors import teach

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


def gpu_kernels(module: str) -> dict[str, ModuleType]:
    """By device: ``module``, which needs Triton, where there are a GPU and a compiler for it."""
    if not torch.cuda.is_available():
        return {}
    try:
        return {"cuda": import_module(module)}
    except ImportError:
        return {}


def compiled(function: Kernel) -> Kernel:
    """The machine code of a function, kept on disk where there is a folder for it.

    It runs without the interpreter's lock, so that several threads can take rows of their own.
    """
    import numba

    _teach()
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(**OPTIONS)(function)


def exp(x: Any) -> Any:
    """For compiled loops: ``e^x``, in float32 for ``x`` up to 88 and without a call, so that a loop stays vectors."""
    return math.exp(x)


def soften(weight, most, norm, count):  # type: ignore[no-untyped-def]
    """For compiled loops: of ``count`` scores of every head, ``[count · h]``, their ``e^(score − most)``, in place.

    One slot of score 0 stands beside them: ``norm`` ``[h]`` begins with its share. ``most`` ``[h]`` is at least 0.
    """
    heads = len(most)
    for c in range(count):
        for h in range(heads):
            weight[c * heads + h] -= most[h]
    for c in range(count * heads):
        weight[c] = exp(weight[c])
    for h in range(heads):
        norm[h] = exp(-most[h])


@cache
def _teach() -> None:
    """Tell numba what :func:`exp`, :func:`soften` and vectors are."""
    from numba import types
    from numba.extending import overload, register_jitable

    @overload(exp, jit_options=OPTIONS)
    def _(x):  # type: ignore[no-untyped-def]
        return _short_exp if x == types.float32 else _long_exp

    register_jitable(**OPTIONS)(soften)
    teach()


# In float32: 2^k times a polynomial (Cephes) in the rest, exact to the last digit or two.
TURNS, HALF, LEAST = np.float32(1 / math.log(2)), np.float32(0.5), np.float32(-87)
HIGH, LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # log 2, of which the first part is exact
C0, C1, C2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
C3, C4, C5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
ZERO, UNIT, BIAS, DIGITS = np.float32(0), np.float32(1), np.int32(127), np.int32(23)


def _short_exp(x):  # type: ignore[no-untyped-def]
    whole = np.floor(x * TURNS + HALF)
    rest = x - whole * HIGH - whole * LOW
    tail = ((((C0 * rest + C1) * rest + C2) * rest + C3) * rest + C4) * rest + C5
    power = np.int32((np.int32(whole) + BIAS) << DIGITS).view(np.float32)  # 2^k is a shifted k
    value = (tail * rest * rest + rest + UNIT) * power
    return ZERO if x < LEAST else value  # so written, a NaN stays one


def _long_exp(x):  # type: ignore[no-untyped-def]
    return math.exp(x)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Kept, because to start threads takes longer than the work on a small batch."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):  # a forked process has the pool, but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def spread(kernel: Kernel, begin: int, end: int, *given: Any) -> None:
    """Call ``kernel(first, last, *given)`` for the rows ``begin : end``, shared among as many threads as torch has."""
    threads = torch.get_num_threads()
    if threads == 1:
        kernel(begin, end, *given)
        return
    cuts = np.linspace(begin, end, threads + 1).astype(int).tolist()
    pool = _pool(threads)
    for done in [pool.submit(kernel, first, last, *given) for first, last in pairwise(cuts)]:
        done.result()

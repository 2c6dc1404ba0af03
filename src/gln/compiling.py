"""Compiled loops, where numba is installed, and GPU kernels, where Triton is."""

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

# Sums may be reordered, so that loops vectorise; infinities and NaN keep their meaning.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@cache
def can_compile() -> bool:
    """Whether numba is installed and supports the installed NumPy; imported only here because that is slow."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def gpu_kernels(module: str) -> dict[str, ModuleType]:
    """Map ``"cuda"`` to ``module``, which needs Triton; empty without a GPU or Triton."""
    if not torch.cuda.is_available():
        return {}
    try:
        return {"cuda": import_module(module)}
    except ImportError:
        return {}


def compiled(function: Kernel) -> Kernel:
    """Compile a function with numba, caching the machine code on disk where possible.

    It releases the GIL, so that several threads can each work on their own rows.
    """
    import numba

    _teach()
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no writable cache folder
        return numba.njit(**OPTIONS)(function)


def exp(x: Any) -> Any:
    """``e^x`` for compiled loops; in float32 for ``x`` up to 88 and inlined, so that the loop vectorises."""
    return math.exp(x)


def soften(weight, most, norm, count):  # type: ignore[no-untyped-def]
    """For compiled loops: turn the scores ``weight [count · h]`` of all heads into ``e^(score − most)``, in place.

    ``most [h]`` is at least 0. The softmax has one more slot, with score 0: ``norm [h]`` is set to its term.
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
    """Register :func:`exp`, :func:`soften` and the vector functions with numba."""
    from numba import types
    from numba.extending import overload, register_jitable

    @overload(exp, jit_options=OPTIONS)
    def _(x):  # type: ignore[no-untyped-def]
        return _short_exp if x == types.float32 else _long_exp

    register_jitable(**OPTIONS)(soften)
    teach()


# In float32: 2^k times a polynomial (Cephes) in the remainder, accurate to the last digit or two.
TURNS, HALF, LEAST = np.float32(1 / math.log(2)), np.float32(0.5), np.float32(-87)
HIGH, LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # log 2 in two parts, the first exact
C0, C1, C2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
C3, C4, C5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
ZERO, UNIT, BIAS, DIGITS = np.float32(0), np.float32(1), np.int32(127), np.int32(23)


def _short_exp(x):  # type: ignore[no-untyped-def]
    whole = np.floor(x * TURNS + HALF)
    rest = x - whole * HIGH - whole * LOW
    tail = ((((C0 * rest + C1) * rest + C2) * rest + C3) * rest + C4) * rest + C5
    power = np.int32((np.int32(whole) + BIAS) << DIGITS).view(np.float32)  # 2^k: k shifted into the exponent
    value = (tail * rest * rest + rest + UNIT) * power
    return ZERO if x < LEAST else value  # written this way, NaN stays NaN


def _long_exp(x):  # type: ignore[no-untyped-def]
    return math.exp(x)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Cached, because starting threads takes longer than the work on a small batch."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):  # a forked process inherits the pool but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def spread(kernel: Kernel, begin: int, end: int, *given: Any) -> None:
    """Run ``kernel(first, last, *given)`` over the rows ``begin : end``, split among as many threads as torch uses."""
    threads = torch.get_num_threads()
    if threads == 1:
        kernel(begin, end, *given)
        return
    cuts = np.linspace(begin, end, threads + 1).astype(int).tolist()
    pool = _pool(threads)
    for done in [pool.submit(kernel, first, last, *given) for first, last in pairwise(cuts)]:
        done.result()

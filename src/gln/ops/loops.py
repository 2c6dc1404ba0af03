"""Loops that numba compiles, spread over the threads that torch uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from gln.later import torch

Kernel = Callable[..., Any]

# Sums may be reordered, so that loops vectorise; infinities and NaN keep their meaning.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@cache
def compiled(function: Kernel, exact: bool = False) -> Kernel:
    """Compile a function with numba once, keeping the machine code on disk where possible.

    It releases the GIL, so that several threads can each work on their own rows. ``exact`` sums in the order written,
    so that every machine finds the same digits.
    """
    import numba  # only here: it takes half a second

    options = OPTIONS | {"fastmath": False} if exact else OPTIONS
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache folder
        return numba.njit(**options)(function)


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


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Cached, because starting threads takes longer than the work on a small batch."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):  # a forked process inherits the pool but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)

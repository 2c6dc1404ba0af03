"""Loops in machine code, where numba is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

Kernel = Callable[..., None]
Spread = Callable[..., None]  # (kernel, first row, end of the rows, what else the kernel takes)

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


@contextmanager
def row_threads() -> Iterator[tuple[int, Spread]]:
    """How many threads torch may use, and a call by which a kernel's rows are shared among as many."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield 1, lambda kernel, begin, end, *given: kernel(begin, end, *given)
        return
    with ThreadPoolExecutor(threads) as pool:

        def spread(kernel: Kernel, begin: int, end: int, *given: Any) -> None:
            cuts = np.linspace(begin, end, threads + 1).astype(int).tolist()
            for done in [pool.submit(kernel, first, last, *given) for first, last in pairwise(cuts)]:
                done.result()

        yield threads, spread

"""A widely used compiled orbit counter to compare with, and how calls are timed."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gln.errors import GLNError


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of the call, and its seconds."""
    start = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - start


def orbit_counter() -> Callable[..., Any]:
    """pyfglt's counter: a table ``[n, 16]`` for a networkx graph or a ``csc_matrix [n, n]`` with at least one edge."""
    try:
        from pyfglt.fglt import compute
    except ImportError as error:
        raise GLNError(
            f"The peer needs {error.name}, which is not installed; pip install 'gln[test]'."
        ) from None
    return compute


def in_orca_order(table: Any) -> np.ndarray:
    """The orbits ``[n, 15]`` of such a table, which lists the node itself first and the paws before the 4-cycle."""
    return table.to_numpy()[:, [1, 2, 3, 4, 5, 6, 7, 8, 12, 9, 10, 11, 13, 14, 15]]


@contextmanager
def silence() -> Iterator[None]:
    """Suppress the line that the compiled counter prints for every graph."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # what C still buffers
        os.dup2(kept, 1)
        os.close(kept)

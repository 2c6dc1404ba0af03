"""One torch thread for work that more threads would slow down."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

SHARED_FROM = 512  # rows from which the work on a matrix is long enough to be shared between threads

_lock = threading.Lock()
_inside = 0
_before = 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block with one torch thread, then restore the number of threads.

    Counting takes hundreds of steps of microseconds each, and a step that waits for a second thread on a busy
    machine takes milliseconds. The number is per process: the last of several Python threads to leave restores it.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_before)


def threads_for_matrices(rows: int) -> AbstractContextManager[None]:
    """All threads for large matrices, one for small ones."""
    return nullcontext() if rows >= SHARED_FROM else one_thread()

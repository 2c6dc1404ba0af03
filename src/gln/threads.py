"""How many threads torch computes with: no more than the work can use, and none that waits by spinning; and processes.

Many of our steps are short. A thread that spins until the next one takes the core away from the thread that computes it
as soon as anything else runs on the machine, and a step of microseconds then takes milliseconds.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import TypeVar

from gln.later import torch

PAIRS = 2**13  # pairs of nodes that keep a thread busy
MOST_PAIRED = 128  # nodes; in larger sets a node is paired with some of the others

Given = TypeVar("Given")
Made = TypeVar("Made")

_lock = threading.Lock()
_inside = 0
_before = 1


def wait_asleep() -> None:
    """Let threads that wait sleep, not spin, unless the user has chosen: OpenMP reads it when torch is imported."""
    if not {"GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def threads_for(graphs: int, nodes: int) -> int:
    """How many threads the pairs of a padded batch keep busy: at least 1, at most as many as torch may use."""
    pairs = graphs * nodes * min(nodes, MOST_PAIRED)
    return max(1, min(torch.get_num_threads(), pairs // PAIRS))


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Run a block with no more torch threads than this, then restore the number of threads.

    The number is per process: of several Python threads the first to enter sets it, the last to leave restores it.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = torch.get_num_threads()
            torch.set_num_threads(min(threads, _before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_before)


def at_once(
    call: Callable[[Given], Made], each: Sequence[Given], workers: int, threads: int
) -> Iterator[Made]:
    """``call`` of ``each``, in order; so many ``workers`` are at it, each with so many ``threads`` of torch."""
    waiting: deque[Future[Made]] = deque()
    with at_most(threads), ThreadPoolExecutor(workers) as pool:
        try:
            for given in each:
                waiting.append(pool.submit(call, given))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def clean_processes(preload: str) -> BaseContext:
    """A context whose workers are not forked from this process: forking after torch has used threads can hang.

    Torch and the module ``preload`` are imported once for all workers, where the system can.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "scipy.spatial", preload])
    return context

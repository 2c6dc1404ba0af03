"""Engines: they compute independent tasks somewhere, each by one of several workers."""

from __future__ import annotations

import io
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Protocol

import torch

from gln.threads import clean_processes

Task = tuple[int, Any]  # a number, and what a worker is called with

TRIES = 3  # workers that a task may cost before it is given up


class Work(Protocol):
    """What every worker gets a copy of."""

    def begin(self, local: int | None) -> None:
        """Prepare, in the worker with number ``local`` of several on this machine."""

    def __call__(self, task: Any, /) -> Any: ...


class Worker(Protocol):
    """Computes one task at a time, pickled, elsewhere: ``None`` if the task has cost too many processes."""

    def __call__(self, task: bytes, /) -> Any: ...

    def stop(self) -> None: ...


#: Yields the numbers of tasks and their results in any order, ``None`` for one that has cost too many workers.
Engine = Callable[[Work, Iterable[Task]], Iterator[tuple[int, Any]]]


def in_this_process(work: Work, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
    work.begin(None)
    for number, task in tasks:
        yield number, work(task)


def in_processes(count: int) -> Engine:
    """``count`` processes on this machine; one that is killed is replaced, and its task tried again."""

    def run(work: Work, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        threads = None if "OMP_NUM_THREADS" in os.environ else max(1, torch.get_num_threads() // count)
        copy = pickled(work)
        yield from spread([_Process(copy, local, threads) for local in range(count)], tasks)

    return run


def spread(workers: Sequence[Worker], tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
    """Hand every task to a worker that is idle, and stop all workers in the end.

    As many tasks as there are workers are read ahead: nobody waits while others are read or results are written.
    """
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def compute(task: bytes) -> Any:
        worker = idle.get()
        try:
            return worker(task)
        finally:
            idle.put(worker)

    given: dict[Future[Any], int] = {}

    def results(most: int) -> Iterator[tuple[int, Any]]:
        """Those that are done, until no more than ``most`` are not."""
        while len(given) > most:
            for future in wait(given, return_when=FIRST_COMPLETED).done:
                yield given.pop(future), future.result()

    with ThreadPoolExecutor(len(workers)) as threads:
        try:
            for number, task in tasks:
                given[threads.submit(compute, pickled(task))] = number
                yield from results(2 * len(workers) - 1)
            yield from results(0)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.stop()


class _Process:
    """A process on this machine."""

    def __init__(self, work: bytes, local: int, threads: int | None) -> None:
        self.given, self.stopped = (work, local, threads), False
        self.start()

    def start(self) -> None:
        context: Any = clean_processes("gln.workflows.tiling")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, *self.given), daemon=True)
        self.process.start()
        theirs.close()
        if self.stopped:  # while it started
            self.process.kill()

    def __call__(self, task: bytes) -> Any:
        for _ in range(TRIES):
            with suppress(ConnectionError):  # if it is gone, this is seen when its answer is read
                self.pipe.send_bytes(task)
            try:
                result = pickle.loads(self.pipe.recv_bytes())
            except (EOFError, ConnectionError):  # killed
                self.start()
                continue
            if isinstance(result, BaseException):
                raise result
            return result
        return None

    def stop(self) -> None:
        self.stopped = True
        self.process.kill()


def _serve(pipe: Connection, work: bytes, local: int, threads: int | None) -> None:
    # Ctrl-C is for the first process, which then ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if threads is not None:
        torch.set_num_threads(threads)
    with suppress(EOFError, ConnectionError):
        try:
            compute: Work = pickle.loads(work)
            compute.begin(local)
            while True:
                pipe.send_bytes(pickled(compute(pickle.loads(pipe.recv_bytes()))))
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            pipe.send_bytes(pickle.dumps(error))


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return (torch.from_numpy, (value.numpy(),)) if type(value) is torch.Tensor else NotImplemented


def pickled(value: Any) -> bytes:
    """Bytes between processes of ours, with tensors as arrays: much faster than torch's own way."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()

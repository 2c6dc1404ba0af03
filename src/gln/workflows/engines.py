"""Engines: they compute independent tasks somewhere, each by one of several workers."""

from __future__ import annotations

import io
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import torch

from gln.threads import clean_processes

Task = tuple[int, Any]  # a number, and what a worker is called with

W = TypeVar("W", bound=Callable[[bytes], Any])  # a worker

TRIES = 3  # workers that a task may cost before it is given up


class Work(Protocol):
    """What every worker gets a copy of."""

    def begin(self, local: int | None) -> None:
        """Prepare, in the worker with number ``local`` of several on this machine."""

    def __call__(self, task: Any, /) -> Any: ...


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
        workers = [_Process(copy, local, threads) for local in range(count)]
        yield from spread(workers, tasks, _Process.stop)

    return run


def spread(
    workers: Sequence[W], tasks: Iterable[Task], stop: Callable[[W], Any]
) -> Iterator[tuple[int, Any]]:
    """Call ``workers`` with the pickled tasks, each with one at a time; all are stopped in the end.

    As many tasks as there are workers are read ahead: nobody waits while others are read or results are written.
    """
    todo, idle = iter(tasks), SimpleQueue[W]()
    for worker in workers:
        idle.put(worker)

    def compute(number: int, task: bytes) -> tuple[int, Any]:
        worker = idle.get()
        try:
            return number, worker(task)
        finally:
            idle.put(worker)

    threads, given = ThreadPoolExecutor(len(workers)), set[Future[tuple[int, Any]]]()
    try:
        while True:
            for number, task in islice(todo, 2 * len(workers) - len(given)):
                given.add(threads.submit(compute, number, pickled(task)))
            if not given:
                return
            done, given = wait(given, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            stop(worker)
        threads.shutdown()


class _Process:
    """A process on this machine, as a worker; one that is killed is replaced."""

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
            try:
                self.pipe.send_bytes(task)
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
        self.process.join()


class Server:
    """In the process of a worker: the copy of the work, begun."""

    def __init__(self, work: bytes, local: int) -> None:
        self.work: Work = pickle.loads(work)  # from our own process
        self.work.begin(local)

    def compute(self, task: bytes) -> bytes:
        return pickled(self.work(pickle.loads(task)))


def _serve(pipe: Connection, work: bytes, local: int, threads: int | None) -> None:
    # Ctrl-C is for the first process, which then ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if threads is not None:
        torch.set_num_threads(threads)
    server = None
    with suppress(EOFError, ConnectionError):
        while True:
            task = pipe.recv_bytes()
            try:
                server = server or Server(work, local)
                answer = server.compute(task)
            except Exception as error:
                answer = pickle.dumps(error)
            pipe.send_bytes(answer)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return (torch.from_numpy, (value.numpy(),)) if type(value) is torch.Tensor else NotImplemented


def pickled(value: Any) -> bytes:
    """Bytes between processes of ours, with tensors as arrays: much faster than torch's own way."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()

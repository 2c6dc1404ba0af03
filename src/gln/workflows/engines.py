"""Engines: they compute independent tasks somewhere, each by one of several workers."""

from __future__ import annotations

import io
import os
import pickle
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
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
        todo, copy = iter(tasks), pickled(work)
        workers = [_Worker(copy, local, threads) for local in range(count)]
        lost: Counter[int] = Counter()
        ahead = next(todo, None)

        def give() -> None:
            nonlocal ahead
            for worker in workers:
                if ahead is not None and worker.task is None:
                    worker.give(ahead)
                    ahead = next(todo, None)  # read while the workers compute, as results are written

        try:
            give()
            while busy := {worker.pipe: worker for worker in workers if worker.task is not None}:
                for pipe in wait(list(busy)):
                    worker = busy[pipe]
                    number, task = worker.take()
                    try:
                        result = pickle.loads(worker.pipe.recv_bytes())
                    except (EOFError, ConnectionError):  # killed
                        lost[number] += 1
                        result, place = None, workers.index(worker)
                        workers[place] = worker = _Worker(copy, worker.local, threads)
                        if lost[number] < TRIES:
                            worker.give((number, task))
                            continue
                    if isinstance(result, BaseException):
                        raise result
                    give()
                    yield number, result
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.join()

    return run


class _Worker:
    """A process that computes what it is given, one task at a time."""

    def __init__(self, work: bytes, local: int, threads: int | None) -> None:
        context: Any = clean_processes("gln.workflows.tiling")
        self.local, self.task = local, None  # type: tuple[int, Task | None]
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work, local, threads), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, task: Task) -> None:
        self.task = task
        with suppress(ConnectionError):  # if it is gone, this is seen when its answer is read
            self.pipe.send_bytes(pickled(task[1]))

    def take(self) -> Task:
        task, self.task = self.task, None
        assert task is not None
        return task


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

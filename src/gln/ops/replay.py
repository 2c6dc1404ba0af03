"""On a GPU, a whole training step, or a prediction, as one launch.

A step of these networks is a thousand small kernels, and launching them one by one takes longer than they do. So a step
is recorded once for every shape of its inputs, as a CUDA graph, and then replayed. To make shapes repeat, batches are
padded to few sizes (:func:`padded_size`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

WARM = 2  # steps of a shape before one is recorded: what is made at first use, such as workspaces, is made in them
MOST = 64  # shapes that are recorded; steps of others are launched kernel by kernel

Inputs = dict[str, Tensor]
T = TypeVar("T")


class Replay(Generic[T]):
    """Calls ``step`` with dicts of tensors, by replaying it where their shapes repeat; it reads nothing back.

    Copy what it returns: the next replay overwrites it.
    """

    def __init__(self, step: Callable[..., T]) -> None:
        self.step = step
        self.seen: Counter[tuple[object, ...]] = Counter()
        self.recorded: dict[tuple[object, ...], tuple[torch.cuda.CUDAGraph, tuple[Inputs, ...], T]] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A stream of its own, which waits for the current one, which then waits for it: a default cannot record."""
        outside = torch.cuda.current_stream()
        self.stream.wait_stream(outside)
        with torch.cuda.stream(self.stream):
            yield
        outside.wait_stream(self.stream)

    def __call__(self, *inputs: Inputs) -> T:
        shape = tuple((name, value.shape, value.dtype) for part in inputs for name, value in part.items())
        if shape not in self.recorded:
            self.seen[shape] += 1
            if self.seen[shape] <= WARM or len(self.recorded) == MOST:
                return self.step(*inputs)
            self.recorded[shape] = self._record(inputs)
        graph, places, answer = self.recorded[shape]
        for place, part in zip(places, inputs, strict=True):
            for name, value in part.items():
                place[name].copy_(value)
        graph.replay()
        return answer

    def _record(self, inputs: tuple[Inputs, ...]) -> tuple[torch.cuda.CUDAGraph, tuple[Inputs, ...], T]:
        """Record a step without running it, with places of its own for the inputs."""
        places = tuple({name: value.clone() for name, value in part.items()} for part in inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=torch.cuda.current_stream()):
            answer = self.step(*places)
        return graph, places, answer


class Ahead:
    """A stream of its own, on which what the next step needs is made while the last step still runs.

    What is made there may read values back to the host: that waits for this stream alone.
    """

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream(priority=-1)  # small kernels, for which the host waits
        self.stream.wait_stream(torch.cuda.current_stream())

    def __call__(self, make: Callable[[], T]) -> T:
        """What ``make`` makes, for the current stream, whose next work waits for it."""
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            made = make()
        current.wait_stream(self.stream)
        for tensor in _tensors(made):
            tensor.record_stream(current)  # whose use of its memory the allocator does not see
        return made


def _tensors(made: object) -> Iterator[Tensor]:
    if isinstance(made, Tensor):
        yield made
    elif isinstance(made, (dict, list, tuple)):
        for part in made.values() if isinstance(made, dict) else made:
            yield from _tensors(part)
    elif hasattr(made, "__dict__"):
        yield from _tensors(vars(made))


def on_the_way(numbers: Tensor) -> Callable[[], list[float]]:
    """Copy numbers to the host; the function that reads them waits for them, not for what was launched since."""
    if not numbers.is_cuda:
        return numbers.tolist
    host, there = numbers.to("cpu", non_blocking=True), torch.cuda.Event()
    there.record()

    def read() -> list[float]:
        there.synchronize()
        return host.tolist()

    return read


def padded_size(nodes: int, alike: bool) -> int:
    """The number of nodes to pad a batch to: as it is if all graphs are ``alike``, or the next of eight per octave."""
    step = max(2 ** (nodes.bit_length() - 4), 1)
    return nodes if alike else -(-nodes // step) * step

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


def padded_size(nodes: int, alike: bool) -> int:
    """The number of nodes to pad a batch to: as it is if all graphs are ``alike``, or the next of eight per octave."""
    step = max(2 ** (nodes.bit_length() - 4), 1)
    return nodes if alike else -(-nodes // step) * step

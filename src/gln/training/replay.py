"""On a GPU, a whole training step as one launch.

A step of these networks is a thousand small kernels, and launching them one by one takes longer than they do. So a step
is recorded once for every shape of its inputs, as a CUDA graph, and then replayed. To make shapes repeat, batches are
padded to few sizes (:func:`padded_size`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

WARM = 2  # steps of a shape before one is recorded: what is made at first use, such as workspaces, is made in them
MOST = 32  # shapes that are recorded; steps of others are launched kernel by kernel

Inputs = dict[str, Tensor]


class Replay:
    """Calls ``step``, which returns numbers and reads nothing back, by replaying it where its inputs' shapes repeat."""

    def __init__(self, step: Callable[[Inputs], Tensor]) -> None:
        self.step = step
        self.seen: Counter[tuple[object, ...]] = Counter()
        self.recorded: dict[tuple[object, ...], tuple[torch.cuda.CUDAGraph, Inputs, Tensor]] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, inputs: Inputs) -> Tensor:
        shape = tuple((name, value.shape, value.dtype) for name, value in inputs.items())
        if shape not in self.recorded:
            self.seen[shape] += 1
            if self.seen[shape] <= WARM or len(self.recorded) == MOST:
                return self.step(inputs)
            self.recorded[shape] = self._record(inputs)
        graph, places, numbers = self.recorded[shape]
        for name, value in inputs.items():
            places[name].copy_(value)
        graph.replay()
        return numbers.clone()  # the next replay overwrites them

    def _record(self, inputs: Inputs) -> tuple[torch.cuda.CUDAGraph, Inputs, Tensor]:
        """Record a step without running it, with places of its own for the inputs."""
        places = {name: value.clone() for name, value in inputs.items()}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=torch.cuda.current_stream()):
            numbers = self.step(places)
        return graph, places, numbers


def padded_size(nodes: int, alike: bool) -> int:
    """The number of nodes to pad a batch to: as it is if all graphs are ``alike``, or the next of eight per octave."""
    step = max(2 ** (nodes.bit_length() - 4), 1)
    return nodes if alike else -(-nodes // step) * step

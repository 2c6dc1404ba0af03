"""Which graphs a process sees, and when: pure functions of seed and epoch.

The global batches of an epoch are the same for any number of processes; process ``r`` of ``w`` takes every ``w``-th
graph of each, starting at ``r``. DDP averages gradients over processes; each share is weighted so that this average is
the mean over the graphs of the global batch, however uneven the shares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset
from torch_geometric.data import Data

from gln.graphs import GraphBatch
from gln.graphs.batch import rows_of_all

Source = Sequence[Data] | Callable[[int], Sequence[Data]]
Augment = Callable[[Data, np.random.Generator], Data]

WINDOW = 32  # batches whose graphs are sorted by size together

# One random stream per purpose.
ORDER, NOISE, STEP, FRESH, GENERATE = range(1, 6)


def seed_of(purpose: int, *numbers: int) -> int:
    """A seed determined by the purpose and the numbers alone."""
    return int(np.random.SeedSequence([purpose, *numbers]).generate_state(1, np.uint64)[0])


def seed_step(device: torch.device, *place: int) -> None:
    """Make what a model draws at random, such as dropout, a function of the place in the run."""
    seed = seed_of(STEP, *place)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed is slow: it visits every kind of device
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def global_batches(
    nodes: Sequence[int], size: int, seed: int | None = None, epoch: int = 0
) -> list[np.ndarray]:
    """The graph numbers in every batch of an epoch over graphs with ``nodes`` nodes; without ``seed``, sorted by size.

    Graphs of similar size share a batch, to keep padding small: the shuffled graphs are sorted within windows of a few
    batches, and the batches are shuffled again.
    """
    if seed is None:
        return np.split(np.argsort(nodes, kind="stable"), range(size, len(nodes), size))
    rng = np.random.default_rng([ORDER, seed, epoch])
    order = rng.permutation(len(nodes))
    sizes = np.asarray(nodes)[order]
    if (sizes == sizes[0]).all():
        return np.split(order, range(size, len(order), size))
    window = np.arange(len(order)) // (WINDOW * size)
    order = order[np.lexsort((sizes, window))]
    batches = np.split(order, range(size, len(order), size))
    return [batches[i] for i in rng.permutation(len(batches))]


class Sampler(Protocol):
    """A source of graphs by seed, such as a family."""

    def sample(self, count: int, seed: int = 0) -> Sequence[Data]: ...


@dataclass(frozen=True)
class Fresh:
    """``count`` new graphs in every epoch, for :func:`gln.fit` in place of a list.

    Args:
        family: what generates them.
        count: graphs per epoch.
        seed: together with the epoch, determines the graphs.
    """

    family: Sampler
    count: int
    seed: int = 0

    def __call__(self, epoch: int) -> Sequence[Data]:
        return self.family.sample(self.count, seed=seed_of(FRESH, self.seed, epoch))


@dataclass(frozen=True)
class Share:
    """One process's part of one global batch.

    ===========  =========================================================================================
    ``batch``    the graphs of the part, padded; a placeholder where the part is empty, so that the process
                 stays in step with the others
    ``weight``   of each graph's loss: processes / ``total``, and 0 for a placeholder
    ``total``    graphs in the global batch
    ``numbers``  their numbers in the epoch's sequence of graphs
    ===========  =========================================================================================
    """

    batch: GraphBatch
    weight: float
    total: int
    numbers: list[int]

    def to(self, device: torch.device) -> Share:
        """The share on another device; does not wait for the copy if memory is pinned."""
        return replace(self, batch=self.batch.to(device, non_blocking=True))

    def pin_memory(self) -> Share:
        """The share in page-locked memory, for the data loader."""
        return replace(self, batch=self.batch.pin_memory())


@dataclass(frozen=True)
class Shares(Dataset[Share]):
    """Process ``rank``'s share of each batch, made on demand, here or in a worker process.

    ``augment`` changes a training graph, with a random generator seeded by ``seed``, ``epoch`` and the graph's number.
    """

    graphs: Sequence[Data]
    batches: Sequence[np.ndarray]
    rank: int
    world: int
    augment: Augment | None = None
    seed: int = 0
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Share:
        numbers = self.batches[index].tolist()
        mine = numbers[self.rank :: self.world]
        batch = GraphBatch.from_graphs([self._graph(number) for number in mine or numbers[:1]])
        return Share(batch, self.world / len(numbers) if mine else 0.0, len(numbers), numbers)

    def _graph(self, number: int) -> Data:
        graph = self.graphs[number]
        if self.augment is None:
            return graph
        return self.augment(graph, np.random.default_rng([NOISE, self.seed, self.epoch, number]))


def describe(source: Source) -> dict[str, Any]:
    """What identifies the graphs of a run: the fingerprint of a list, or a name for what makes them."""
    if callable(source):
        return {
            "recipe": repr(source)
            if isinstance(source, Fresh)
            else getattr(source, "__qualname__", "callable")
        }
    digest = hashlib.sha256()
    for graph in source:
        for name in ("pos", "x", "edge_index"):
            value = graph.get(name)
            digest.update(f"{name}{None if value is None else list(value.shape)}".encode())
            if value is not None:
                digest.update(value.numpy(force=True).tobytes())
    return {"graphs": len(source), "sha256": digest.hexdigest()}


def feature_noise(graphs: Sequence[Data]) -> dict[str, Any]:
    """The shape and scale of the features: sizes with their counts, mean and standard deviation per column."""
    sizes, counts = np.unique([graph.num_nodes for graph in graphs], return_counts=True)
    noise: dict[str, Any] = {
        "sizes": [[int(size), int(count)] for size, count in zip(sizes, counts, strict=True)]
    }
    for name in ("pos", "x"):
        rows = rows_of_all(name, graphs)
        if rows is not None:
            rows = rows.double()
            deviation = rows.std(dim=0, correction=0)
            noise[name] = {"mean": rows.mean(dim=0).tolist(), "std": deviation.tolist()}
    return noise

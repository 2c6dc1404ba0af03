"""Which graphs a process sees, and when: pure functions of seed and epoch.

The global batches of an epoch are the same for any number of processes; process ``r`` of ``w`` takes every ``w``-th
graph of each, starting at ``r``. DDP averages gradients over processes; each share is weighted so that this average is
the mean over the graphs of the global batch, however uneven the shares.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from gln.errors import GLNError
from gln.graphs import GraphBatch, as_graphs
from gln.graphs.check import as_record
from gln.graphs.record import Graph
from gln.seeds import FRESH, NOISE, ORDER, SEEDS, STEP, check_seed, seed_of
from gln.training.config import FitConfig

if TYPE_CHECKING:
    from torch_geometric.data import Data

Source = Sequence[Any] | Callable[[int], Sequence[Any]]
Augment = Callable[["Data", np.random.Generator], "Data"]

WINDOW = 32  # batches whose graphs are sorted by size together


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


class GraphSource(Protocol):
    """Anything that draws graphs by seed, such as a family."""

    def sample(self, count: int, seed: int = 0) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Fresh:
    """``count`` new graphs in every epoch, for :func:`gln.fit` in place of a list.

    Args:
        family: what generates them.
        count: graphs per epoch.
        seed: together with the epoch, determines the graphs.
    """

    family: GraphSource
    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("Fresh", self.seed)

    def __call__(self, epoch: int) -> Sequence[Any]:
        draw = getattr(self.family, "graphs", self.family.sample)
        return draw(self.count, seed=seed_of(FRESH, self.seed, epoch) % SEEDS)


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

    graphs: Sequence[Graph]
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

    def _graph(self, number: int) -> Graph:
        graph = self.graphs[number]
        if self.augment is None:
            return graph
        rng = np.random.default_rng([NOISE, self.seed, self.epoch, number])
        return as_record(self.augment(graph.to_data(), rng))


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


@dataclass
class Feed:
    """Makes the data loaders of process ``rank`` of ``world``; the rest as in :func:`gln.fit`, with checked graphs."""

    train: Source
    val: Sequence[Graph]
    augment: Augment | None
    config: FitConfig
    rank: int = 0
    world: int = 1
    pin_memory: bool = False
    checked: bool = False  # what a function makes: checking takes about as long, so only the first graphs are

    def graphs(self, epoch: int) -> Sequence[Graph]:
        """The training graphs of an epoch."""
        if not callable(self.train):
            return self.train
        made, checked, self.checked = self.train(epoch), self.checked, True
        return list(map(as_record, made)) if checked else as_graphs(made, f"train({epoch})")

    def train_loader(self, graphs: Sequence[Graph], epoch: int, batch: int) -> tuple[DataLoader[Share], int]:
        """The shares of an epoch from batch ``batch`` on, and how many batches it has in all."""
        seed = self.config.seed
        nodes = [graph.num_nodes for graph in graphs]
        batches = global_batches(nodes, self.config.batch_size, seed, epoch)
        shares = Shares(graphs, batches[batch:], self.rank, self.world, self.augment, seed, epoch)
        return self._loader(shares), len(batches)

    def val_loader(self) -> DataLoader[Share]:
        """All validation graphs."""
        batches = global_batches([graph.num_nodes for graph in self.val], self.config.batch_size)
        return self._loader(Shares(self.val, batches, self.rank, self.world))

    def _loader(self, shares: Shares) -> DataLoader[Share]:
        workers = self.config.num_workers
        return DataLoader(shares, batch_size=None, num_workers=workers, pin_memory=self.pin_memory)


@dataclass(frozen=True)
class RandomRotation:
    """Rotate and mirror ``pos`` by a random orthogonal matrix, for families whose edges do not depend on direction."""

    def __call__(self, graph: Data, rng: np.random.Generator) -> Data:
        if graph.get("pos") is None:
            raise GLNError(
                "The graph has no pos to rotate; train without RandomRotation, or give it positions."
            )
        width = graph.pos.shape[1]
        matrix, upper = np.linalg.qr(rng.standard_normal((width, width)))
        matrix *= np.sign(np.diag(upper))  # uniform over all orthogonal matrices
        turned = copy.copy(graph)
        turned.pos = graph.pos @ torch.from_numpy(matrix).to(graph.pos.dtype)
        return turned

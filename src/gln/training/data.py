"""Which graphs a process sees, and when: pure functions of seed and epoch.

The global batches of an epoch are the same for any number of processes; process ``r`` of ``w`` takes every ``w``-th
graph of each, starting at ``r``. DDP averages gradients over processes; each share is weighted so that this average is
the mean over the graphs of the global batch, however uneven the shares.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gln.errors import GLNError
from gln.graphs import GraphBatch, as_graphs
from gln.graphs.batch import JoinedGraphs, counts_of
from gln.graphs.check import as_record
from gln.graphs.features import feature_scale
from gln.graphs.record import KINDS, Graph
from gln.models.contract import ScalesFeatures, check_kinds, kinds_of
from gln.ops.replay import padded_size
from gln.seeds import FRESH, NOISE, ORDER, SEEDS, STEP, check_seed, seed_of
from gln.training.config import FitConfig

if TYPE_CHECKING:
    from torch_geometric.data import Data

Source = Sequence[Any] | Callable[[int], Sequence[Any]]
Augment = Callable[["Data", np.random.Generator], "Data"]

UNEQUAL = 100  # times that one feature may vary as much as another
RESIDENT = 2**32  # bytes of graphs that may be kept on a GPU
WINDOW = 32  # batches whose graphs are sorted by size together


def seed_step(device: torch.device, *place: int) -> None:
    """Make what a model draws at random, such as dropout, a function of the place in the run."""
    seed = seed_of(STEP, *place)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed is slow: it visits every kind of device
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def global_batches(
    nodes: Sequence[int] | np.ndarray, size: int, seed: int | None = None, epoch: int = 0
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
    """One process's part of one global batch; a placeholder where it is empty, to stay in step with the others."""

    batch: GraphBatch  # the graphs of the part, padded
    weight: float  # of each graph's loss: processes / total, and 0 for a placeholder
    total: int  # graphs in the global batch
    numbers: list[int]  # theirs in the epoch's sequence of graphs

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
    ``kinds`` are those of edges and nodes that the model learns. Of the only process, the graphs may be ``resident`` on
    its device: batches are then made there, padded to few sizes.
    """

    graphs: Sequence[Graph]
    batches: Sequence[np.ndarray]
    rank: int
    world: int
    augment: Augment | None = None
    seed: int = 0
    epoch: int = 0
    kinds: tuple[str, ...] = ()
    resident: JoinedGraphs | None = None

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Share:
        numbers = self.batches[index].tolist()
        mine = numbers[self.rank :: self.world]
        if self.resident is not None:
            batch = self._on_device(self.resident, self.batches[index])
        else:
            graphs = [self._graph(number) for number in mine or numbers[:1]]
            batch = GraphBatch.from_graphs(graphs, kinds=self.kinds)
        return Share(batch, self.world / len(numbers) if mine else 0.0, len(numbers), numbers)

    def _graph(self, number: int) -> Graph:
        graph = self.graphs[number]
        if self.augment is None:
            return graph
        # What is ours takes our own record too, so that PyG need not be imported.
        given = graph if isinstance(self.augment, RandomRotation) else graph.to_data()
        return as_record(self.augment(cast("Data", given), self._noise(number)))

    def _on_device(self, there: JoinedGraphs, numbers: np.ndarray) -> GraphBatch:
        """A batch of the resident graphs, each rotated as :meth:`_graph` would."""
        most, turn = int(there.sizes.max()), self.augment
        nodes = padded_size(int(there.sizes[numbers].max()), alike=int(there.sizes.min()) == most)
        batch = there.batch(numbers, min(nodes, most))
        if turn is None:
            return batch
        assert isinstance(turn, RandomRotation)
        pos = turn.checked(batch.pos)
        turns = turn.matrices([self._noise(number) for number in numbers.tolist()], pos.shape[-1])
        # Not as a matrix product, which a GPU may compute with fewer digits.
        product = pos[..., None] * there.there(turns).to(pos.dtype)[:, None]
        return replace(batch, pos=product.sum(-2))

    def _noise(self, number: int) -> np.random.Generator:
        """What the augmentation of a graph draws from."""
        return np.random.default_rng([NOISE, self.seed, self.epoch, number])


def describe(source: Source) -> dict[str, Any]:
    """What identifies the graphs of a run: the fingerprint of a list, or a name for what makes them."""
    if isinstance(source, Fresh):
        return {"recipe": repr(source)}
    if callable(source):
        return {"recipe": getattr(source, "__qualname__", "callable")}
    digest = hashlib.sha256()
    for graph in source:
        for name in ("pos", "x", "edge_index", *(kind for kind in KINDS if kind in graph)):
            value = graph.get(name)
            digest.update(f"{name}{None if value is None else list(value.shape)}".encode())
            if value is not None:
                digest.update(value.numpy(force=True).tobytes())
    return {"graphs": len(source), "sha256": digest.hexdigest()}


def warn_of_scales(model: Any, graphs: Sequence[Graph]) -> None:
    """Warn of features that drown out others, unless the model scales them."""
    deviation = feature_scale(graphs)[1]
    if deviation is None or getattr(model, "config", {}).get("x_mean") is not None:
        return
    ratio = max(deviation) / min(deviation)
    if ratio > UNEQUAL:
        way_out = "model.scale_features(*gln.graphs.features.feature_scale(train))"
        warnings.warn(
            f"One column of x varies {ratio:,.0f} times as much as another, and the model does not scale them; "
            + (f"call {way_out} first." if isinstance(model, ScalesFeatures) else "scale them first."),
            stacklevel=3,
        )


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
    device: torch.device | None = None  # a GPU on which batches are to be made, in few shapes
    resident: JoinedGraphs | None = None  # the training graphs on it
    checked: bool = False  # what a function makes: checking takes about as long, so only the first graphs are
    model: Any = None  # whose kinds the graphs must have

    def graphs(self, epoch: int) -> Sequence[Graph]:
        """The training graphs of an epoch."""
        if not callable(self.train):
            return self.train
        made, checked, self.checked = self.train(epoch), self.checked, True
        if checked:
            return made if isinstance(made, JoinedGraphs) else list(map(as_record, made))
        graphs = as_graphs(made, f"train({epoch})")
        check_kinds(self.model, graphs, f"train({epoch})")
        return graphs

    def train_loader(self, graphs: Sequence[Graph], epoch: int, batch: int) -> tuple[Iterable[Share], int]:
        """The shares of an epoch from batch ``batch`` on, and how many batches it has in all."""
        seed = self.config.seed
        nodes = counts_of(graphs)[0]
        batches = global_batches(nodes, self.config.batch_size, seed, epoch)
        mine = (self.rank, self.world)
        shares = Shares(graphs, batches[batch:], *mine, self.augment, seed, epoch, self.kinds)
        if self.device is None or not self._fits(graphs):
            return self._loader(shares), len(batches)
        if self.resident is None or callable(self.train):
            self.resident = JoinedGraphs.of(graphs, self.kinds, device=self.device)
        there = replace(shares, resident=self.resident)
        return map(there.__getitem__, range(len(there))), len(batches)

    def _fits(self, graphs: Sequence[Graph]) -> bool:
        """Whether batches can be made on the device: it has room for all graphs, and augmentation is a rotation."""
        room = min(RESIDENT, torch.cuda.mem_get_info(self.device)[0] // 4)
        known = self.augment is None or isinstance(self.augment, RandomRotation)
        # Bytes of a node or a column of edge_index, at most.
        each = 8 * (4 + len(self.kinds) + sum(graphs[0].widths))
        return known and each * int(sum(map(np.sum, counts_of(graphs)))) <= room

    def val_loader(self) -> DataLoader[Share]:
        """All validation graphs."""
        batches = global_batches([graph.num_nodes for graph in self.val], self.config.batch_size)
        return self._loader(Shares(self.val, batches, self.rank, self.world, kinds=self.kinds))

    @property
    def kinds(self) -> tuple[str, ...]:
        """What batches hold of the kinds of edges and nodes."""
        return kinds_of(self.model).learned

    def _loader(self, shares: Shares) -> DataLoader[Share]:
        workers = self.config.num_workers
        return DataLoader(shares, batch_size=None, num_workers=workers, pin_memory=self.pin_memory)


@dataclass(frozen=True)
class RandomRotation:
    """Rotate and mirror ``pos`` by a random orthogonal matrix, for families whose edges do not depend on direction."""

    def __call__(self, graph: Data, rng: np.random.Generator) -> Data:
        pos = self.checked(graph.get("pos"))
        turned = copy.copy(graph)
        turned.pos = pos @ torch.from_numpy(self.matrices([rng], pos.shape[1])[0]).to(pos.dtype)
        return turned

    def checked(self, pos: Tensor | None) -> Tensor:
        """The positions, which must be there."""
        if pos is None:
            raise GLNError(
                "The graph has no pos to rotate; train without RandomRotation, or give it positions."
            )
        return pos

    def matrices(self, rngs: Sequence[np.random.Generator], width: int) -> np.ndarray:
        """Uniform over all orthogonal matrices, one from each generator: ``[len(rngs), width, width]``."""
        matrix, upper = np.linalg.qr(np.stack([rng.standard_normal((width, width)) for rng in rngs]))
        return matrix * np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None]

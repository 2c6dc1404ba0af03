"""MMD between two sets of graphs, and how its results print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from gln.errors import GLNError
from gln.evaluation.counting import Device, check_device
from gln.evaluation.descriptors import (
    DESCRIPTORS,
    TITLES,
    Descriptor,
    Distance,
    Estimator,
    Kernel,
    check_estimator,
    estimate,
    random_subsets,
)
from gln.evaluation.metrics import number, table
from gln.evaluation.statistics import largest_components
from gln.graphs import as_graphs
from gln.graphs.check import check_whole
from gln.graphs.convert import CheckedGraphs
from gln.graphs.record import Graph
from gln.seeds import check_seed


class Interval(NamedTuple):
    """MMD² over random subsets: the mean, and the middle 95 % of the values."""

    mean: float
    low: float
    high: float


class MMDResult(dict[str, float]):
    """MMD² by descriptor; prints as a table that says how it was computed.

    ``floor`` holds the MMD² between the floor graphs and the reference, ``intervals`` the results on random
    subsets, both by descriptor and empty unless requested; ``kernels`` and ``notes`` say in words how.
    """

    def __init__(
        self,
        values: Mapping[str, float],
        kernels: Mapping[str, str],
        notes: Sequence[str],
        floor: Mapping[str, float],
        intervals: Mapping[str, Interval],
    ) -> None:
        super().__init__(values)
        self.kernels, self.notes = dict(kernels), tuple(notes)
        self.floor, self.intervals = dict(floor), dict(intervals)

    def named(self) -> dict[str, float]:
        """The values by their names in :data:`gln.evaluation.METRICS`: ``mmd_degree`` and so on."""
        return {f"mmd_{name}": value for name, value in self.items()}

    @property
    def summary(self) -> str:
        """One line that says how the values were computed, for tables that show them beside other scores."""
        return "; ".join([self.notes[0], *(f"{name}: {kernel}" for name, kernel in self.kernels.items())])

    def __repr__(self) -> str:
        header = ["descriptor", "kernel", "MMD² ↓"]
        rows = [[name, self.kernels[name], number(value)] for name, value in self.items()]
        if self.floor:
            header.append("floor")
            for row in rows:
                row.append(number(self.floor[row[0]]))
        if self.intervals:
            header += ["subsets", "95 % of them"]
            for row in rows:
                mean, low, high = map(number, self.intervals[row[0]])
                row += [mean, f"{low} … {high}"]
        return table(header, rows, self.notes, words=2)


GRAPHRNN = ("degree", "clustering", "orbit")


def mmd(
    reference: Iterable[Any],
    predicted: Iterable[Any],
    descriptors: str | Descriptor | Sequence[str | Descriptor] = GRAPHRNN,
    *,
    kernel: Distance | Kernel | None = None,
    estimator: Estimator = "biased",
    largest_component: bool = False,
    floor: Iterable[Any] | None = None,
    subsets: int = 0,
    subset_size: int | None = None,
    seed: int = 0,
    device: Device = None,
) -> MMDResult:
    """MMD² between two sets of graphs; the default is GraphRNN's evaluation, number for number.

    It looks at structure alone: not at types and weights, and directed edges count without their direction.

    Args:
        reference: graphs of any kind and size: PyG, networkx, numpy, scipy or torch adjacencies.
        predicted: the graphs to judge. No graph of either set is ever dropped.
        descriptors: one or more names in :data:`gln.evaluation.DESCRIPTORS`, or descriptors of your own.
        kernel: ``"emd"``, ``"tv"`` or ``"rbf"`` with each descriptor's own width, or a :class:`Kernel`;
            ``None`` for each descriptor's default.
        estimator: ``"biased"`` or ``"unbiased"``.
        largest_component: use only the largest connected component of every graph, as the paper did.
        floor: graphs from the reference's own distribution, usually the training graphs; their MMD² to the
            reference is what a perfect model can expect.
        subsets: how many random subsets to repeat the estimate on; 0 for none.
        subset_size: graphs to draw from each set for a subset; by default half of the smaller set.
        seed: seed of the subsets.
        device: where to compute; by default where the first reference graph is.
    """
    chosen, place = _choose(descriptors, kernel), check_device(device)
    given = {"reference": reference, "predicted": predicted} | ({} if floor is None else {"floor": floor})
    sets = {name: as_graphs(graphs, name, kinds=False) for name, graphs in given.items()}
    counts = [len(graphs) for graphs in sets.values()]
    check_estimator(estimator, *counts)
    size = _subset_size(subsets, subset_size, min(counts[:2]), estimator)
    generator = torch.Generator().manual_seed(check_seed("MMD", seed))
    draws = [random_subsets(count, size, subsets, generator) for count in counts[:2]]  # [S, n], [S, m]
    place = place or check_device(sets["reference"][0].edge_index.device)
    everything = CheckedGraphs(
        Graph(edge_index=graph.undirected().edge_index.to(place), num_nodes=graph.num_nodes)
        for graphs in sets.values()
        for graph in graphs
    )
    if largest_component:
        everything = CheckedGraphs(largest_components(everything))

    values: dict[str, float] = {}
    floors: dict[str, float] = {}
    intervals: dict[str, Interval] = {}
    for descriptor in chosen:
        # All sets in one call: one batch of graphs, one common support of the histograms.
        ref, *others = descriptor.compute(everything, place).split(counts)
        xx = descriptor.similarity(ref, ref)
        for found, other in zip((values, floors), others, strict=False):
            xy, yy = descriptor.similarity(ref, other), descriptor.similarity(other, other)
            all_x, all_y = xx.new_ones(1, len(xx)), xx.new_ones(1, len(yy))
            found[descriptor.name] = float(estimate(xx, xy, yy, all_x, all_y, estimator))
            if subsets and found is values:
                x, y = (part.to(xx.device) for part in draws)
                drawn = estimate(xx, xy, yy, x, y, estimator)
                low, high = drawn.quantile(drawn.new_tensor([0.025, 0.975])).tolist()
                intervals[descriptor.name] = Interval(float(drawn.mean()), low, high)
    kernels = {descriptor.name: str(descriptor.kernel) for descriptor in chosen}
    scope = ", largest components only" if largest_component else ""
    graphs = f"{counts[0]} reference and {counts[1]} predicted graphs{scope}"
    notes = [f"MMD squared, {TITLES[estimator]}, {graphs}"]
    if floors:
        notes.append(f"floor: the same between {counts[2]} floor graphs and the reference")
    if subsets:
        notes.append(f"subsets: mean over {subsets} random draws of {size} graphs of each set")
    return MMDResult(values, kernels, notes, floors, intervals)


def _choose(
    descriptors: str | Descriptor | Sequence[str | Descriptor], kernel: Distance | Kernel | None
) -> list[Descriptor]:
    """The requested descriptors with the requested kernel, checked."""
    some = [descriptors] if isinstance(descriptors, str | Descriptor) else descriptors
    if not isinstance(some, Iterable):
        raise GLNError(f"Got descriptors={descriptors!r}; expected names from {', '.join(DESCRIPTORS)}.")
    chosen = []
    for name in some:
        if not isinstance(name, Descriptor) and name not in DESCRIPTORS:
            raise GLNError(f"There is no descriptor {name!r}; choose from {', '.join(DESCRIPTORS)}.")
        one = name if isinstance(name, Descriptor) else DESCRIPTORS[name]
        if kernel is not None:
            asked = kernel if isinstance(kernel, Kernel) else Kernel(kernel, one.kernel.sigma)
            one = replace(one, kernel=asked)
        chosen.append(one)
    names = [one.name for one in chosen]
    if not chosen or len(set(names)) < len(names):
        raise GLNError(f"Got the descriptors {names}; expected at least one, each only once.")
    return chosen


def _subset_size(subsets: int, size: int | None, available: int, estimator: Estimator) -> int:
    """Graphs per subset, checked."""
    check_whole("MMD", "subsets", subsets, 0)
    if size is not None and not subsets:
        raise GLNError(
            f"Got subset_size={size} without subsets; set subsets, the number of random draws, too."
        )
    size = max(available // 2, 1) if size is None else check_whole("MMD", "subset_size", size, 1)
    least = 2 if estimator == "unbiased" else 1
    if subsets and not least <= size <= available:
        raise GLNError(
            f"Got subset_size={size}; expected {least} to {available}, the number of graphs in the smaller set."
        )
    return size

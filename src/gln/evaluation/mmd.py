"""MMD between two sets of graphs: descriptors, one vector per graph; kernels between such vectors; estimators.

A kernel is a Gaussian of one of three distances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.counting import Device, check_device, orbits
from gln.evaluation.metrics import number, table
from gln.evaluation.statistics import clustering, degrees, filtered, laplacian_spectrum, largest_components
from gln.graphs import as_graphs
from gln.graphs.check import check_choice, check_real, check_whole
from gln.graphs.convert import CheckedGraphs
from gln.graphs.record import Graph
from gln.seeds import check_seed

Distance = Literal["emd", "tv", "rbf"]
_TITLES = {"emd": "Gaussian EMD", "tv": "Gaussian TV", "rbf": "RBF"}


@dataclass(frozen=True)
class Kernel:
    """``k(x, y) = exp(−d(x, y)² / 2σ²)``.

    =========  ===================================================================================
    ``"emd"``  the earth mover's distance between histograms on a line; GraphRNN's choice
    ``"tv"``   total variation, half the L1 distance; GRAN's choice
    ``"rbf"``  the Euclidean distance
    =========  ===================================================================================

    The first two are not positive definite for every set of histograms, so an MMD² with them, although it is
    what the field publishes, may fall slightly below 0; ``"rbf"`` is always positive definite.
    """

    distance: Distance
    sigma: float

    def __post_init__(self) -> None:
        check_choice("Kernel", "distance", self.distance, get_args(Distance))
        check_real("Kernel", "sigma", self.sigma, above=True)

    def __call__(self, x: Tensor, y: Tensor, bin_width: float | None = None) -> Tensor:
        """The kernel matrix ``[n, m]`` of descriptors ``x [n, d]`` and ``y [m, d]``, both float64.

        ``bin_width`` is the distance between neighbouring bins; only ``"emd"`` needs it.
        """
        if self.distance == "emd":
            if bin_width is None:
                raise GLNError(
                    'The "emd" kernel compares histograms, but this descriptor is not one; choose "tv" or "rbf".'
                )
            # On a line the cheapest transport has a closed form: the area between the two cumulative sums.
            distance = torch.cdist(x.cumsum(1), y.cumsum(1), p=1) * bin_width
        elif self.distance == "tv":
            distance = torch.cdist(x, y, p=1) / 2
        else:
            # The faster way, by a matrix product, loses half of the digits.
            distance = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
        return torch.exp(-(distance**2) / (2 * self.sigma**2))

    def __str__(self) -> str:
        return f"{_TITLES[self.distance]}, σ={self.sigma:g}"


Estimator = Literal["biased", "unbiased"]
TITLES = {"biased": "biased (V-statistic)", "unbiased": "unbiased (U-statistic)"}


def estimate(xx: Tensor, xy: Tensor, yy: Tensor, x: Tensor, y: Tensor, estimator: Estimator) -> Tensor:
    """MMD² of ``S`` pairs of subsets ``[S]``, from kernel matrices ``xx [n, n]``, ``xy [n, m]`` and ``yy [m, m]``.

    ``x [S, n]`` and ``y [S, m]`` say by 0 or 1 which graphs belong to each subset. ``"biased"`` averages over all
    pairs; ``"unbiased"`` leaves out every graph's pair with itself, so that its expectation is 0 for two sets from one
    distribution, and single values may be negative.
    """

    def mean(kernel: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        return ((rows @ kernel) * columns).sum(1) / (rows.sum(1) * columns.sum(1))

    def within(kernel: Tensor, members: Tensor) -> Tensor:
        if estimator == "biased":
            return mean(kernel, members, members)
        count = members.sum(1)
        total = mean(kernel, members, members) * count**2 - members @ kernel.diagonal()
        return total / (count * (count - 1))

    return within(xx, x) + within(yy, y) - 2 * mean(xy, x, y)


@dataclass(frozen=True)
class Descriptor:
    """A function that describes every graph by a vector.

    Args:
        name: its name in tables.
        compute: maps checked graphs and a device to their vectors, float64 ``[G, d]``.
        kernel: used unless another is requested.
        bin_width: for histograms, the distance between neighbouring bins; ``None`` for other vectors.
    """

    name: str
    compute: Callable[[Sequence[Graph], Device], Tensor]
    kernel: Kernel
    bin_width: float | None = None

    def similarity(self, x: Tensor, y: Tensor) -> Tensor:
        """The kernel matrix ``[n, m]`` of vectors ``x [n, d]`` and ``y [m, d]``."""
        return self.kernel(x, y, self.bin_width)


def _shares(values: list[Tensor], bins: Tensor, width: int) -> Tensor:
    """The share of each graph's nodes in each bin, from the bin of every node ``[n]``: ``[G, width]``."""
    sizes = torch.tensor([len(value) for value in values], device=bins.device)
    graph = torch.repeat_interleave(sizes)
    counts = (graph * width + bins).bincount(minlength=len(values) * width).view(len(values), width)
    return counts.double() / sizes[:, None]


def _binned(values: list[Tensor], low: float, high: float, width: int) -> Tensor:
    """Histograms with ``width`` equal bins; a value beyond the range is counted in the first or last bin.

    A value on an edge falls into the bin to its right, with the edges of numpy.histogram: clustering
    coefficients often lie on one.
    """
    every = torch.cat(values)
    edges = torch.from_numpy(np.linspace(low, high, width + 1)).to(every.device)
    return _shares(values, torch.bucketize(every, edges, right=True).sub(1).clamp(0, width - 1), width)


def _degree(graphs: Sequence[Graph], device: Device) -> Tensor:
    values = degrees(graphs, device)
    every = torch.cat(values)
    return _shares(values, every, int(every.max()) + 1)


def _clustering(graphs: Sequence[Graph], device: Device) -> Tensor:
    return _binned(clustering(graphs, device), 0, 1, 100)


def _orbit(graphs: Sequence[Graph], device: Device) -> Tensor:
    return torch.stack([counts.sum(0).double() / len(counts) for counts in orbits(graphs, device)])


def _spectrum(graphs: Sequence[Graph], device: Device) -> Tensor:
    # The range starts below 0 so that the frequent eigenvalues 0, ½, 1 and 1½ lie off the edges of the bins.
    return _binned(laplacian_spectrum(graphs, device), -1e-5, 2, 200)


WAVELETS, LOWEST = 12, 2 / 20  # filters, and the eigenvalue below which only the first one looks


def _wavelets(eigenvalues: Tensor) -> Tensor:
    """Hammond, Vandergheynst and Gribonval's wavelets of cubic splines (2011), as in PyGSP: ``[WAVELETS, ...]``.

    A wavelet ``g`` rises as ``x²`` to 1, is a cubic between 1 and 2, and falls as ``4 / x²``; it is used at eleven
    scales. The first filter passes what is lower than all of them.
    """
    scales = torch.logspace(
        np.log10(2 / LOWEST), np.log10(1 / 2), WAVELETS - 1, dtype=torch.float64, device=eigenvalues.device
    )
    x = scales.view(-1, *[1] * eigenvalues.dim()) * eigenvalues
    bands = torch.where(x < 1, x**2, torch.where(x < 2, _spline(x), 4 / x.clamp(min=1) ** 2))
    return torch.cat([PEAK * torch.exp(-((eigenvalues / (0.6 * LOWEST)) ** 4))[None], bands])


def _spline(x: Tensor) -> Tensor:
    """The cubic with values 1 and 1 and slopes 2 and −1 at 1 and 2."""
    return -5 + 11 * x - 6 * x**2 + x**3


PEAK = float(_spline(torch.tensor(2 - 3**-0.5, dtype=torch.float64)))  # its highest value


def _wavelet(graphs: Sequence[Graph], device: Device) -> Tensor:
    # The bound is the highest value at these eigenvalues, as published; a few nodes lie beyond it and are not counted.
    high = float(_wavelets(torch.arange(0, 2, 0.01, dtype=torch.float64)).max())
    each = filtered(graphs, _wavelets, device)
    counts = [torch.stack([one.histc(100, 0, high) for one in graph]).flatten() for graph in each]
    return torch.stack([count / count.sum() for count in counts])


DESCRIPTORS: Mapping[str, Descriptor] = {
    descriptor.name: descriptor
    for descriptor in (
        # You et al. 2018, GraphRNN: widths and bins of its evaluation.
        Descriptor("degree", _degree, Kernel("emd", 1.0), bin_width=1.0),
        Descriptor("clustering", _clustering, Kernel("emd", 0.1), bin_width=1 / 100),
        Descriptor("orbit", _orbit, Kernel("rbf", 30.0)),
        # Liao et al. 2019, GRAN.
        Descriptor("spectrum", _spectrum, Kernel("tv", 1.0), bin_width=2 / 200),
        # Martinkus et al. 2022, SPECTRE.
        Descriptor("wavelet", _wavelet, Kernel("tv", 1.0)),
    )
}


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
    check_choice("MMD", "estimator", estimator, get_args(Estimator))
    if estimator == "unbiased" and min(counts) < 2:
        raise GLNError(
            "The unbiased estimator compares graphs within each set; give at least 2 graphs per set."
        )
    size = _subset_size(subsets, subset_size, min(counts[:2]), estimator)
    generator = torch.Generator().manual_seed(check_seed("MMD", seed))
    draws = []  # which graphs are in each subset, as 0 and 1: [S, n], [S, m]
    for count in counts[:2]:
        drawn = torch.rand(subsets, count, generator=generator).argsort(1)[:, :size]
        draws.append(torch.zeros(subsets, count, dtype=torch.float64).scatter(1, drawn, 1.0))
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
                each = estimate(xx, xy, yy, x, y, estimator)
                low, high = each.quantile(each.new_tensor([0.025, 0.975])).tolist()
                intervals[descriptor.name] = Interval(float(each.mean()), low, high)
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

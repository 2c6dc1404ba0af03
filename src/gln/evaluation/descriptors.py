"""Descriptors, one vector per graph, and kernels between such vectors: a Gaussian of one of three distances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.counting import Device, orbits
from gln.evaluation.statistics import clustering, degrees, filtered, laplacian_spectrum
from gln.graphs.check import check_choice, check_real
from gln.graphs.record import Graph

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


def check_estimator(estimator: str, *counts: int) -> None:
    """Refuse an unknown estimator, and the unbiased one for sets of a single graph."""
    check_choice("MMD", "estimator", estimator, get_args(Estimator))
    if estimator == "unbiased" and min(counts) < 2:
        raise GLNError(
            "The unbiased estimator compares graphs within each set; give at least 2 graphs per set."
        )


def estimate(xx: Tensor, xy: Tensor, yy: Tensor, x: Tensor, y: Tensor, estimator: Estimator) -> Tensor:
    """MMD² of ``S`` pairs of subsets ``[S]``, from kernel matrices ``xx [n, n]``, ``xy [n, m]`` and ``yy [m, m]``.

    ``x [S, n]`` and ``y [S, m]`` say by 0 or 1 which graphs belong to each subset. ``"biased"`` averages over all
    pairs; ``"unbiased"`` leaves out every graph's pair with itself, so that its expectation is 0 for two sets from one
    distribution, and single values may be negative.
    """
    return _within(xx, x, estimator) + _within(yy, y, estimator) - 2 * _mean(xy, x, y)


def _within(kernel: Tensor, members: Tensor, estimator: Estimator) -> Tensor:
    if estimator == "biased":
        return _mean(kernel, members, members)
    count = members.sum(1)
    total = _mean(kernel, members, members) * count**2 - members @ kernel.diagonal()
    return total / (count * (count - 1))


def _mean(kernel: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return ((rows @ kernel) * columns).sum(1) / (rows.sum(1) * columns.sum(1))


def random_subsets(total: int, size: int, count: int, generator: torch.Generator) -> Tensor:
    """``count`` subsets of ``size`` out of ``total`` graphs, as 0 and 1: float64 ``[count, total]``."""
    chosen = torch.rand(count, total, generator=generator).argsort(1)[:, :size]
    return torch.zeros(count, total, dtype=torch.float64).scatter(1, chosen, 1.0)


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

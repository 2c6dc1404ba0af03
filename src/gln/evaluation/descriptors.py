"""Descriptors: one vector per graph, and the default kernel between such vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gln.evaluation.counting import Device
from gln.evaluation.kernels import Kernel
from gln.evaluation.orbits import orbits
from gln.evaluation.statistics import clustering, degrees, laplacian_spectrum
from gln.graphs.record import Graph


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


DESCRIPTORS: Mapping[str, Descriptor] = {
    descriptor.name: descriptor
    for descriptor in (
        # You et al. 2018, GraphRNN: widths and bins of its evaluation.
        Descriptor("degree", _degree, Kernel("emd", 1.0), bin_width=1.0),
        Descriptor("clustering", _clustering, Kernel("emd", 0.1), bin_width=1 / 100),
        Descriptor("orbit", _orbit, Kernel("rbf", 30.0)),
        # Liao et al. 2019, GRAN.
        Descriptor("spectrum", _spectrum, Kernel("tv", 1.0), bin_width=2 / 200),
    )
}

"""Kernels between descriptors: a Gaussian of one of three distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs.check import check_choice, check_real

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
    """MMD² of ``S`` pairs of subsets: ``[S]``.

    Args:
        xx, xy, yy: kernel matrices ``[n, n]``, ``[n, m]``, ``[m, m]``.
        x, y: which graphs belong to each subset, 0 or 1: ``[S, n]`` and ``[S, m]``.
        estimator: ``"biased"`` averages over all pairs; ``"unbiased"`` leaves out every graph's pair with
            itself, so that its expectation is 0 for two sets from one distribution, and single values may be
            negative.
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

"""Kernels between descriptors: a Gaussian of one of three distances."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.options import is_number

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
        if self.distance not in get_args(Distance):
            raise GLNError(
                f"There is no kernel {self.distance!r}; choose from {', '.join(get_args(Distance))}."
            )
        if not is_number(self.sigma) or not 0 < self.sigma < inf:
            raise GLNError(f"Got sigma={self.sigma!r}; expected a positive, finite kernel width.")

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

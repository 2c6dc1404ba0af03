"""Statistics of graphs, batched."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from gln.evaluation.orbits import orbits

__all__ = ["clustering", "degrees", "laplacian_spectrum", "orbits", "triangles"]


def degrees(graphs: Sequence[Data], device: torch.device | str | None = None) -> list[Tensor]:
    """Degree of every node: int64 ``[n]`` per graph."""
    raise NotImplementedError


def triangles(graphs: Sequence[Data], device: torch.device | str | None = None) -> list[Tensor]:
    """Triangles through every node: int64 ``[n]`` per graph."""
    raise NotImplementedError


def clustering(graphs: Sequence[Data], device: torch.device | str | None = None) -> list[Tensor]:
    """Clustering coefficient of every node: float64 ``[n]`` per graph; 0 where the degree is below 2."""
    raise NotImplementedError


def laplacian_spectrum(graphs: Sequence[Data], device: torch.device | str | None = None) -> list[Tensor]:
    """Ascending eigenvalues of the normalised Laplacian: float64 ``[n]`` per graph."""
    raise NotImplementedError

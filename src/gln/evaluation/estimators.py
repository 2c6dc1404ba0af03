"""Estimators of MMD² from kernel matrices, for many weighted subsets at once."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gln.errors import GLNError

Estimator = Literal["biased", "unbiased"]
TITLES = {"biased": "biased (V-statistic)", "unbiased": "unbiased (U-statistic)"}


def check_estimator(estimator: str, *counts: int) -> None:
    """Refuse an unknown estimator, and the unbiased one for sets of a single graph."""
    if estimator not in get_args(Estimator):
        raise GLNError(f"There is no estimator {estimator!r}; choose from {', '.join(get_args(Estimator))}.")
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

"""Sums over all pairs: matrices against the definition, at extremes too."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from reproduction.baselines.mmsb_model import SeenPairs, Sums, sum_pairs


def random_pairs(sizes: list[int], density: float, held_out: float = 0.2) -> SeenPairs:
    """Graphs of these sizes, padded to the largest."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]
    joined, seen = (
        torch.rand(len(sizes), max(sizes), max(sizes), generator=generator).triu(1) > 1 - share
        for share in (density, 1 - held_out)
    )
    seen = seen & mask[:, None] & mask[..., None]
    joined, parted = joined & seen, ~joined & seen
    return SeenPairs(joined | joined.mT, parted | parted.mT, mask)


def random_weights(pairs: SeenPairs, roles: int, sharpness: float) -> Tensor:
    """Of every node's roles ``[G, N, K]``; the sharper, the smaller are all but the greatest."""
    generator = torch.Generator().manual_seed(1)
    logs = sharpness * torch.rand(*pairs.mask.shape, roles, dtype=torch.float64, generator=generator)
    return (logs - logs.amax(dim=-1, keepdim=True)).exp()


def random_blocks(graphs: int, roles: int, least: float) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    blocks = torch.rand(graphs, roles, roles, dtype=torch.float64, generator=generator)
    return ((blocks + blocks.mT) / 2).clamp(least, 1 - least)


def slow_sums(pairs: SeenPairs, weight: Tensor, blocks: Tensor) -> Sums:
    """The definition, one pair after another."""
    found = Sums(
        torch.zeros(len(weight), dtype=torch.float64), torch.zeros_like(weight), torch.zeros_like(weight)
    )
    for looked_at, chance, out in (
        (pairs.joined, blocks, found.joined),
        (pairs.parted, 1 - blocks, found.parted),
    ):
        for g, p, q in looked_at.nonzero().tolist():
            evidence = float(weight[g, p] @ chance[g] @ weight[g, q])
            found.logs[g] += math.log(evidence) / 2
            out[g, p] += weight[g, q] / evidence
    return found


def assert_same(actual: Sums, expected: Sums) -> None:
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


class TestSums:
    @pytest.mark.parametrize("roles", [1, 2, 5])
    @pytest.mark.parametrize("sizes", [[1], [2, 3], [9, 1, 14, 5]])
    def test_are_those_of_a_loop_over_pairs(self, sizes: list[int], roles: int) -> None:
        pairs = random_pairs(sizes, density=0.3)
        weight, blocks = random_weights(pairs, roles, 3.0), random_blocks(len(sizes), roles, 0.05)
        assert_same(sum_pairs(pairs, weight, blocks), slow_sums(pairs, weight, blocks))

    @pytest.mark.parametrize(("density", "sure"), [(0.5, 1e-6), (1.0, 1e-12), (0.0, 1 - 1e-12)])
    def test_hold_where_the_product_of_all_evidence_leaves_float64(self, density: float, sure: float) -> None:
        """One role, and half of all pairs, or all, are as unlikely as can be."""
        pairs = random_pairs([70], density, held_out=0.0)
        weight, blocks = random_weights(pairs, 1, 0.0), torch.full((1, 1, 1), sure, dtype=torch.float64)
        found = sum_pairs(pairs, weight, blocks)
        assert float(found.logs) < -1400
        assert_same(found, slow_sums(pairs, weight, blocks))

    def test_hold_where_all_roles_weigh_alike(self) -> None:
        """Evidence of up to K² = 900 per pair: 3160 factors of it leave float64 above."""
        pairs = random_pairs([80], 0.5, held_out=0.0)
        weight, blocks = random_weights(pairs, 30, 0.0), random_blocks(1, 30, 0.4)
        found = sum_pairs(pairs, weight, blocks)
        assert float(found.logs) > 1400
        assert_same(found, slow_sums(pairs, weight, blocks))

    def test_hold_where_weights_nearly_vanish(self) -> None:
        pairs = random_pairs([30, 40], 0.2)
        weight, blocks = random_weights(pairs, 4, 600.0), random_blocks(2, 4, 1e-6)
        assert weight.min() < 1e-200
        assert_same(sum_pairs(pairs, weight, blocks), slow_sums(pairs, weight, blocks))

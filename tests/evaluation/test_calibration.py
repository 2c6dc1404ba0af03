"""The calibration error compares what was promised with what happened."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import pad

from gln.errors import GLNError
from gln.evaluation import CalibrationError, calibration_error


def symmetric(count: int, nodes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    p, chance = torch.rand(2, count, nodes, nodes, generator=generator).triu(1)
    adj = (chance < p) & (p > 0)
    return p + p.mT, adj | adj.mT


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_equals_the_sum_over_bins(bins) -> None:
    p, adj = symmetric(3, 7, seed=0)
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    pairs = [
        (float(p[g, i, j]), bool(adj[g, i, j]))
        for g in range(3)
        for j in range(7)
        for i in range(j)
        if mask[g, j]
    ]
    error = 0.0
    for b in range(bins):
        inside = [(s, t) for s, t in pairs if b / bins <= s < (b + 1) / bins]
        if inside:
            promised, happened = (sum(column) / len(inside) for column in zip(*inside, strict=True))
            error += len(inside) / len(pairs) * abs(promised - happened)
    assert calibration_error(p, adj, mask, bins) == pytest.approx(error, abs=1e-8)
    padded = pad(p, (0, 2, 0, 2), value=9), pad(adj, (0, 2, 0, 2), value=True), pad(mask, (0, 2))
    assert calibration_error(*padded, bins) == calibration_error(p, adj, mask, bins)


def test_honest_probabilities_have_none_and_boastful_ones_have() -> None:
    p, adj = symmetric(4, 200, seed=1)
    everyone = torch.ones(4, 200)
    assert calibration_error(p, adj, everyone) < 0.02
    assert calibration_error(adj.float(), adj, everyone) == 0
    assert calibration_error(1 - adj.float(), adj, everyone) == 1
    assert calibration_error((p > 0.5).float(), adj, everyone) > 0.2


def test_merged_metrics_equal_one_exactly() -> None:
    p, adj = symmetric(6, 9, seed=2)
    mask = torch.ones(6, 9)
    whole, first, second = CalibrationError(), CalibrationError(), CalibrationError()
    whole.update(p, adj, mask)
    first.update(p[:2], adj[:2], mask[:2])
    second.update(p[2:], adj[2:], mask[2:])
    first.merge_state(second)
    assert torch.equal(first.compute(), whole.compute())


def test_mistakes_are_named() -> None:
    with pytest.raises(GLNError, match="bins=0"):
        CalibrationError(bins=0)
    with pytest.raises(GLNError, match="NaN or outside"):
        calibration_error(torch.full((1, 2, 2), float("nan")), torch.zeros(1, 2, 2), torch.ones(1, 2))


@pytest.mark.parametrize("bins", [2.5, "many", True])
def test_bins_are_a_whole_number(bins) -> None:
    with pytest.raises(GLNError, match=f"bins={bins!r}"):
        calibration_error(torch.ones(1, 2, 2), torch.ones(1, 2, 2), torch.ones(1, 2), bins)

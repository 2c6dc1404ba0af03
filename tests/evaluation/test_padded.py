"""The best threshold is where the edge scores are best; calibration compares promises with what happened."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import pad

from gln.errors import GLNError
from gln.evaluation import BestThreshold, EdgeScores, calibration_error


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(5, 8, 8, generator=generator)
    p = ((p + p.mT) * 10).round() / 20  # many lie exactly on a threshold
    adj = (p + 0.3 * torch.randn(5, 8, 8, generator=generator)).triu(1) > 0.6
    sizes = torch.randint(1, 9, (5, 1), generator=generator)
    return p, adj | adj.mT, torch.arange(8) < sizes


@pytest.mark.parametrize("entries", ["pairs", "all"])
@pytest.mark.parametrize("seed", range(5))
def test_is_the_best_of_all_thresholds_tried(entries, seed) -> None:
    search = BestThreshold(steps=19, entries=entries)
    reached = {}
    for threshold in search.thresholds.tolist():
        scores = EdgeScores(threshold, entries)
        for part in (seed, seed + 100):
            scores.update(*batch(part))
        reached[threshold] = float(scores.compute()["iou"])
    for part in (seed, seed + 100):
        search.update(*batch(part))
    best = search.compute()
    assert float(best["iou"]) == pytest.approx(max(reached.values()), abs=1e-8)
    assert reached[float(best["threshold"])] == pytest.approx(max(reached.values()), abs=1e-8)


def test_of_equals_the_nearest_to_one_half() -> None:
    adj = torch.tensor([[[0, 1, 0], [1, 0, 0], [0, 0, 0]]])
    search = BestThreshold()
    search.update(adj * 0.95 + 0.02, adj, torch.ones(1, 3))
    assert search.compute() == {"threshold": torch.tensor(0.5), "iou": torch.tensor(1.0)}


def test_mistakes_are_named() -> None:
    with pytest.raises(GLNError, match="steps=0"):
        BestThreshold(steps=0)
    with pytest.raises(GLNError, match=r"steps=2\.5"):
        BestThreshold(steps=2.5)
    with (
        pytest.raises(GLNError, match="No graph has been scored"),
        pytest.warns(UserWarning, match="compute"),
    ):
        BestThreshold().compute()


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
    whole, first, second = EdgeScores(), EdgeScores(), EdgeScores()
    whole.update(p, adj, mask)
    first.update(p[:2], adj[:2], mask[:2])
    second.update(p[2:], adj[2:], mask[2:])
    first.merge_state(second)
    assert first.compute() == whole.compute()


def test_mistakes_of_calibration_are_named() -> None:
    with pytest.raises(GLNError, match="NaN or outside"):
        calibration_error(torch.full((1, 2, 2), float("nan")), torch.zeros(1, 2, 2), torch.ones(1, 2))


@pytest.mark.parametrize("bins", [0, 2.5, "many", True])
def test_bins_are_a_whole_number(bins) -> None:
    with pytest.raises(GLNError, match=f"bins={bins!r}"):
        calibration_error(torch.ones(1, 2, 2), torch.ones(1, 2, 2), torch.ones(1, 2), bins)

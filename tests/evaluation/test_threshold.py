"""The best threshold is the one at which the edge scores are best."""

from __future__ import annotations

import pytest
import torch

from gln.errors import GLNError
from gln.evaluation import BestThreshold, EdgeScores


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

"""By what features are shifted and divided."""

from __future__ import annotations

import pytest
import torch

from gln.graphs import make_graph
from gln.graphs.features import feature_scale


def test_wild_columns_get_mean_0_and_deviation_1_and_yes_or_no_stays() -> None:
    rng = torch.Generator().manual_seed(0)
    wild = torch.randn(50, 2, generator=rng) * torch.tensor([1e5, 1e-3]) + 7
    rows = torch.cat(
        [wild, torch.full((50, 1), 0.1), (torch.rand(50, 1, generator=rng) < 0.1).float()], dim=1
    )
    graphs = [make_graph(x=part) for part in rows.split(10)]
    mean, deviation = (torch.tensor(values) for values in feature_scale(graphs))
    scaled = (rows - mean) / deviation
    torch.testing.assert_close(scaled[:, :2].mean(0), torch.zeros(2), atol=1e-3, rtol=0)
    torch.testing.assert_close(scaled[:, :2].std(0, correction=0), torch.ones(2), atol=1e-3, rtol=0)
    assert deviation[2] == 1  # never changes: a value not seen before must not become a huge one
    assert scaled[:, 2].abs().max() < 1e-7
    assert torch.equal(scaled[:, 3], rows[:, 3])


def test_without_features_there_is_no_scale() -> None:
    assert feature_scale([make_graph(pos=torch.rand(4, 2))]) == (None, None)


def test_a_deviation_that_float32_cannot_hold_is_not_divided_by() -> None:
    rows = torch.tensor([[1e-44], [0.0], [3e-45]])
    assert feature_scale([make_graph(x=rows)])[1] == [pytest.approx(1)]

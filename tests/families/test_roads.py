"""Positions and features decide the weights."""

from __future__ import annotations

import pytest
import torch

from gln.families import family
from gln.families.delaunay import delaunay_edges


def test_a_weight_is_the_length_between_the_slowness_of_both_ends() -> None:
    for graph in family("roads", points=9).graphs(5, seed=1):
        assert torch.equal(graph.edge_index, delaunay_edges(graph.pos))
        for (i, j), weight in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True):
            (a, b), (c, d) = (graph.pos[i] - graph.pos[j]).tolist(), ((graph.x[i] + graph.x[j]) / 2).tolist()
            assert weight == pytest.approx(((a * c) ** 2 + (b * d) ** 2) ** 0.5, rel=1e-6)
        assert 0.5 <= float(graph.x.min()) < float(graph.x.max()) <= 2

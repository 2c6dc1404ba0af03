"""The neighbours baseline chooses what scores best, and sees points alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.baselines import Neighbours
from gln.errors import GLNError
from gln.graphs import make_graph

RULES = ("knn", "mutual", "radius", "gabriel", "rng")


def points(seed: int, count: int = 20, width: int = 2) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, width), dtype=np.float32))


def near(radius: float, seed: int, count: int = 20) -> Data:
    """A graph whose edges are the pairs up to ``radius`` apart."""
    pos = points(seed, count)
    apart = torch.cdist(pos.double(), pos.double(), compute_mode="donot_use_mm_for_euclid_dist")
    return make_graph(pos=pos, edges=(apart <= radius).triu(1).nonzero())


@pytest.mark.parametrize("rule", RULES)
def test_a_graph_of_its_own_kind_is_found_exactly(rule: str) -> None:
    maker = Neighbours(rule=rule)
    maker.parameter_, maker.scale_ = {"radius": 0.3}.get(rule, 4), torch.empty(0)
    graphs = [maker.predict(Data(pos=points(seed), num_nodes=20)) for seed in range(6)]
    fitted = Neighbours(rule=rule).fit(graphs[:3])
    assert gln.evaluate(fitted, graphs[3:])["dice"] > 0.98
    assert gln.evaluate(fitted, graphs[:3])["dice"] == 1
    if rule in ("knn", "mutual"):
        assert fitted.parameter_ == 4


@pytest.mark.parametrize("rule", ["knn", "mutual", "radius"])
def test_no_other_choice_scores_better_on_validation(rule: str) -> None:
    family = gln.family("delaunay", points=15)
    train, val = family.sample(3, seed=0), family.sample(4, seed=1)
    fitted = Neighbours(rule=rule, most=10).fit(train, val)
    best = gln.evaluate(fitted, val)["dice"]
    for choice in range(1, 11) if rule != "radius" else np.linspace(0.05, 1, 20):
        fitted.parameter_ = float(choice)
        assert gln.evaluate(fitted, val)["dice"] <= best + 1e-12


def test_without_validation_graphs_the_training_graphs_decide() -> None:
    assert Neighbours(rule="radius").fit([near(0.2, 0)]).parameter_ <= 0.2
    assert 0.2 < Neighbours(rule="radius").fit([near(0.2, 0)], [near(0.4, 1)]).parameter_ <= 0.4


@pytest.mark.parametrize("rule", RULES)
def test_permuting_the_nodes_permutes_the_graph(rule: str) -> None:
    grid = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))  # full of ties
    model = Neighbours(rule=rule).fit([near(0.3, 0)])
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    plain, shuffled = (gln.to_numpy(gln.predict(model, where)) for where in (grid, grid[order]))
    np.testing.assert_array_equal(shuffled, plain[order][:, order])


def test_without_positions_the_features_say_who_is_near() -> None:
    model = Neighbours(rule="gabriel").fit([near(0.3, 0)])
    where = points(1)
    with_pos, with_x = gln.predict(model, Data(pos=where)), gln.predict(model, Data(x=where))
    assert torch.equal(with_pos.edge_index, with_x.edge_index)
    with pytest.raises(GLNError, match="neither pos nor x"):
        gln.predict(model, Data(num_nodes=3))


def test_graphs_without_edges_and_of_one_node() -> None:
    empty = [make_graph(pos=points(0)), make_graph(pos=points(1)[:1])]
    for rule in RULES:
        model = Neighbours(rule=rule).fit(empty)
        assert gln.predict(model, points(2)[:1]).num_edges == 0
        assert gln.predict(model, points(2)).num_nodes == 20
    assert gln.predict(Neighbours(rule="radius").fit(empty), points(2)).num_edges == 0

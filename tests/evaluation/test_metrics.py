"""Every metric is tested: a perfect answer reaches the good end of its range, and a bad one does not."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
import torch

from gln.evaluation import (
    METRICS,
    Scores,
    calibration_error,
    edge_scores,
    kind_scores,
    mmd,
    novelty,
    segmentation_scores,
)
from gln.evaluation.generation import generation_scores, is_tree
from gln.graphs import as_graph, make_graph

TRUE = [as_graph(nx.disjoint_union(nx.complete_graph(4), nx.path_graph(3))), as_graph(nx.star_graph(4))]
BAD = [as_graph(nx.cycle_graph(7)), as_graph(nx.complement(nx.star_graph(4)))]
# The first four nodes are one region and the others another; JOINED has those as its components.
for graph in TRUE:
    graph.region = torch.arange(graph.num_nodes) // 4
JOINED = [as_graph(nx.disjoint_union(nx.complete_graph(4), nx.complete_graph(g.num_nodes - 4))) for g in TRUE]


def edges(name: str) -> tuple[float, float]:
    return edge_scores(TRUE, TRUE)[name], edge_scores(TRUE, BAD)[name]


def discrepancy(name: str) -> tuple[float, float]:
    return mmd(TRUE, TRUE, [name])[name], mmd(TRUE, BAD, [name])[name]


def segments(name: str) -> tuple[float, float]:
    perfect = {"ari_components": TRUE, "ari_regions": JOINED}[name]
    return segmentation_scores(TRUE, perfect)[name], segmentation_scores(TRUE, BAD)[name]


def calibration() -> tuple[float, float]:
    adj = torch.ones(1, 3, 3) - torch.eye(3)
    return calibration_error(adj, adj, torch.ones(1, 3)), calibration_error(adj / 2, adj, torch.ones(1, 3))


def kinds(name: str) -> tuple[float, float]:
    edges = [[0, 1], [1, 2], [2, 0]]
    nodes = {"num_nodes": 3, "directed": True}
    true = make_graph(edges=edges, edge_type=[0, 1, 1], edge_weight=[1, 2, 3], node_type=[0, 1, 0], **nodes)
    bad = make_graph(
        edges=[[0, 1], [1, 0], [2, 0]],
        edge_type=[1, 0, 1],
        edge_weight=[3, 2, 1],
        node_type=[0, 0, 0],
        **nodes,
    )
    sure = true.clone()
    sure.edge_type_prob, bad.edge_type_prob = torch.eye(2)[true.edge_type], torch.eye(2)[bad.edge_type]
    return kind_scores([true], [sure])[name], kind_scores([true], [bad])[name]


def generated(name: str) -> tuple[float, float]:
    test = [as_graph(nx.path_graph(7)), as_graph(nx.star_graph(6))]
    train = [as_graph(nx.balanced_tree(2, 2)), as_graph(nx.path_graph(6))]
    good, bad = (generation_scores(train, test, made, is_tree, group=2) for made in (test, BAD))
    return good[name], bad[name]


CASES: dict[str, Callable[[], tuple[float, float]]] = {
    **{
        name: lambda name=name: edges(name)
        for name in ("accuracy", "iou", "dice", "precision", "recall", "average_precision", "exact")
    },
    **{
        f"mmd_{name}": lambda name=name: discrepancy(name)
        for name in ("degree", "clustering", "orbit", "spectrum", "wavelet")
    },
    **{name: lambda name=name: segments(name) for name in ("ari_components", "ari_regions")},
    "calibration_error": calibration,
    **{
        name: lambda name=name: kinds(name)
        for name in METRICS
        if name.startswith(("type_", "weight_")) or name in ("directions", "node_accuracy", "exact_kinds")
    },
    **{name: lambda name=name: generated(name) for name in ("valid", "vun", "mmd_ratio")},
    "novelty": lambda: (novelty(TRUE, BAD)["novelty"], novelty(TRUE, TRUE)["novelty"]),
    "uniqueness": lambda: (novelty(TRUE, BAD)["uniqueness"], novelty(TRUE, BAD * 2)["uniqueness"]),
}


@pytest.mark.parametrize("name", METRICS)
def test_a_perfect_answer_is_best_and_a_bad_one_is_worse(name) -> None:
    assert name in CASES, f"the metric {name} has no test; add one to CASES"
    metric = METRICS[name]
    perfect, bad = CASES[name]()
    assert perfect == pytest.approx(metric.high if metric.higher_is_better else 0, abs=1e-12)
    assert metric.low <= bad <= metric.high
    assert bad < perfect if metric.higher_is_better else bad > perfect
    assert metric.reference
    assert metric.name == name


def test_no_test_is_left_over() -> None:
    assert set(CASES) == set(METRICS)


@pytest.mark.parametrize(
    "scores",
    [lambda: edge_scores(TRUE, BAD), lambda: segmentation_scores(TRUE, BAD), lambda: novelty(TRUE, BAD)],
)
def test_every_score_is_registered_and_printed_with_its_arrow(scores) -> None:
    values = scores()
    for name in values:
        metric = METRICS[name.removeprefix("pooled_")]
        assert f"{metric.title} {metric.arrow}" in str(values)


def test_scores_are_a_dict_of_floats() -> None:
    scores = Scores({"iou": torch.tensor(0.5), "pooled_iou": 0.25, "mine": 3}, notes=["a note"])
    assert scores == {"iou": 0.5, "pooled_iou": 0.25, "mine": 3.0}
    assert str(scores).splitlines()[2].split() == ["IoU", "↑", "0.5000", "0.2500"]
    assert str(scores).splitlines()[-1] == "a note"

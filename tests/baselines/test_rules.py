"""The rules beside a model are fitted on training, saved with the run, and judged as the model is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import gln
from gln.baselines.neighbours import Neighbours, fit_rules, load_rules, rules_of_scored, save_rules
from gln.errors import GLNError
from gln.evaluation.metrics import Scores
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.graphs.split import judged_part
from gln.inference.evaluate import evaluated


def nearest(count: int, k: int, seed: int) -> Graph:
    """Points that are each joined to the ``k`` nearest."""
    maker = Neighbours(rule="knn")
    maker.parameter_, maker.scale_ = torch.tensor(float(k)), torch.empty(0)
    return maker.answer(make_graph(pos=np.random.default_rng(seed).random((count, 2))))


def test_the_rule_that_made_the_graphs_is_found_and_kept(tmp_path: Path) -> None:
    graphs = [nearest(30, 4, seed) for seed in range(6)]
    rules = fit_rules(graphs)
    knn, radius = rules
    assert knn == "4 nearest"
    assert radius.startswith("within 0.")
    gln.save(gln.GLN(pos_channels=2, width=8, pair_width=8, steps=1), tmp_path)
    save_rules(tmp_path, rules)
    again = load_rules(tmp_path)
    assert list(again) == list(rules)
    for words, rule in rules.items():
        for graph in graphs:
            assert torch.equal(again[words].answer(graph).edge_index, rule.answer(graph).edge_index)
    assert load_rules("delaunay") == {}
    for damaged in ("3", '{"parameter": [1, 2], "scale": []}', '{"parameter": 1e300}', '{"parameter": "a"}'):
        (tmp_path / "rules.json").write_text(f'{{"knn": {damaged}}}')
        with pytest.raises(GLNError, match="does not hold the rules"):
            load_rules(tmp_path)


def test_features_of_any_unit_are_near_alike() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((40, 3))
    edges = np.argwhere(np.triu(np.linalg.norm(x[:, None] - x, axis=-1) < 0.3, 1))
    plain, scaled = (fit_rules([make_graph(x=x * unit, edges=edges)]) for unit in (1.0, [1e4, 1, 1e-3]))
    for one, other, unit in zip(plain.values(), scaled.values(), (1.0, [1e4, 1, 1e-3]), strict=False):
        assert torch.equal(
            one.answer(make_graph(x=x)).edge_index,
            other.answer(make_graph(x=x * [1e4, 1, 1e-3])).edge_index,
        ), unit


def test_only_pairs_of_training_rows_choose_the_rule() -> None:
    """The other rows are there, as they are when the table is predicted, but their edges are not looked at."""
    whole = nearest(40, 3, 0)
    judged = torch.zeros(40, dtype=torch.int64)
    judged[:25] = 1
    lying = whole.with_edges(make_graph(pos=whole.pos, edges=np.stack(np.triu_indices(40, 1), 1)).edge_index)
    inside = (judged[whole.edge_index] == 1).all(0)
    outside = ~(judged[lying.edge_index] == 1).all(0)
    edges = torch.cat([whole.edge_index[:, inside], lying.edge_index[:, outside]], dim=1)
    mixed = gln.graphs.check_graph(Graph(40, pos=whole.pos, edge_index=edges))
    mixed.judged = judged
    assert next(iter(fit_rules([mixed]))) == "3 nearest"


@pytest.mark.parametrize("value", [1, 2])
def test_what_is_judged_is_scored_as_if_cut_out_of_the_whole_prediction(value: int) -> None:
    torch.manual_seed(0)
    model = gln.GLN(pos_channels=2, width=8, pair_width=8, steps=1)
    graph = gln.family("delaunay", points=30).graphs(1)[0]
    answer = gln.predict(model, graph, threshold=0.45)
    judged = torch.zeros(30, dtype=torch.int64)
    judged[::3] = value
    graph.judged = judged
    model.threshold = 0.45
    rules = {"2 nearest": Neighbours().fit([nearest(20, 2, 1)])}
    found = evaluated(model, [graph], rules=rules)[2]
    expected = gln.edge_scores(
        [judged_part(graph, judged)], [judged_part(gln.graphs.check_graph(answer), judged)]
    )
    for name in ("dice", "precision", "recall", "iou", "accuracy"):
        assert found[name] == pytest.approx(expected[name])
    beside = judged_part(rules["2 nearest"].answer(graph), judged)
    assert found.rules["2 nearest"]["dice"] == gln.edge_scores([judged_part(graph, judged)], [beside])["dice"]


def test_a_rule_that_wins_comes_first() -> None:
    won = Scores({"dice": 0.5}, rules={"3 nearest": {"dice": 0.4}, "within 2": {"dice": 0.6}})
    assert str(won).startswith("A simple rule does better: within 2 reaches F1 0.6000, the model 0.5000.\n")
    lost = Scores({"dice": 0.7}, rules={"3 nearest": {"dice": 0.4}})
    assert str(lost).startswith("metric")
    assert "3 nearest" in str(lost)


def test_a_radius_in_another_unit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [nearest(30, 3, seed) for seed in range(3)]
    rules = fit_rules(graphs)
    monkeypatch.setattr("gln.baselines.neighbours.MOST_PAIRS", 100)
    far = [make_graph(pos=graph.pos / 100, edges=graph.edges_once()) for graph in graphs]
    found = evaluated(rules["3 nearest"], far, rules=rules)[2]
    assert list(found.rules) == ["3 nearest"]


def test_a_model_without_rules_meets_those_that_suit_what_is_scored_best() -> None:
    graphs = [nearest(30, 4, seed) for seed in range(6)]
    rules, words = rules_of_scored(graphs)
    assert list(rules) == list(fit_rules(graphs))
    assert "the first 6 graphs scored here" in words
    assert rules_of_scored([nearest(3, 1, 0)])[1].startswith(
        "k and radius are those that suit the first graph "
    )

"""Scores of kinds equal what slow and obvious loops over pairs count."""

from __future__ import annotations

from itertools import permutations

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Data

from gln.evaluation import EdgeScores, edge_scores, kind_scores
from gln.graphs import GraphBatch, make_graph
from gln.inference.evaluate import evaluate
from tests.conftest import graphs


@st.composite
def pairs_of_graphs(draw: st.DrawFn, directed: bool) -> tuple[list, list]:
    """True and predicted graphs on the same nodes, with all kinds."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))

    def one(n: int):  # type: ignore[no-untyped-def]
        chosen = rng.random((n, n)) < 0.5
        edges = np.argwhere(chosen & (~np.eye(n, dtype=bool) if directed else np.tri(n, k=-1, dtype=bool)))
        m = len(edges)
        graph = make_graph(
            edges=edges,
            num_nodes=n,
            edge_type=rng.integers(0, 3, m),
            edge_weight=1 + rng.random(m),
            node_type=rng.integers(0, 2, n),
            directed=directed,
        )
        chances = rng.dirichlet([1, 1, 1], m)
        keys = {
            tuple(sorted(pair) if not directed else pair): p
            for pair, p in zip(edges.tolist(), chances, strict=True)
        }
        ends = graph.edge_index.T.tolist()
        rows = [keys[tuple(sorted(pair) if not directed else pair)] for pair in ends]
        graph.edge_type_prob = torch.tensor(np.array(rows).reshape(-1, 3))
        return graph

    return [one(n) for n in sizes], [one(n) for n in sizes]


def kinds_at(graph, name: str) -> dict[tuple[int, int], float]:
    return dict(zip(map(tuple, graph.edge_index.T.tolist()), graph[name].tolist(), strict=True))


@pytest.mark.parametrize("directed", [False, True])
@given(data=st.data())
def test_every_score_is_a_plain_count_over_pairs(data: st.DataObject, directed: bool) -> None:
    true, predicted = data.draw(pairs_of_graphs(directed))
    scores = edge_scores(true, predicted)
    (types,) = scores.tables
    count = len(types.names)
    confusion = np.zeros((count + 1, count + 1), dtype=int)
    weights, directions, nodes, exact = [], [], [], []
    for truth, guess in zip(true, predicted, strict=True):
        n = truth.num_nodes
        actual, found = kinds_at(truth, "edge_type"), kinds_at(guess, "edge_type")
        for i, j in permutations(range(n), 2):
            if directed or i < j:
                confusion[actual.get((i, j), count), found.get((i, j), count)] += 1
                if (i, j) in actual and (i, j) in found:
                    weights.append(
                        (kinds_at(truth, "edge_weight")[i, j], kinds_at(guess, "edge_weight")[i, j])
                    )
            if i < j:
                ways = [((i, j) in some, (j, i) in some) for some in (actual, found)]
                if any(ways[0]) and any(ways[1]):
                    directions.append(ways[0] == ways[1])
        nodes += (truth.node_type == guess.node_type).tolist()
        exact.append(actual == found and truth.node_type.equal(guess.node_type))
    np.testing.assert_array_equal(types.confusion, confusion)
    assert scores["type_accuracy"] == pytest.approx(np.trace(confusion) / max(confusion.sum(), 1))
    f1 = []
    for kind in range(count):
        right, all_true, all_found = confusion[kind, kind], confusion[kind].sum(), confusion[:, kind].sum()
        if all_true + all_found:
            f1.append(2 * right / (all_true + all_found))
        assert types.scores()["precision"][kind] == pytest.approx(right / max(all_found, 1))
        assert types.scores()["recall"][kind] == pytest.approx(right / max(all_true, 1))
    assert scores["type_f1_macro"] == pytest.approx(np.mean(f1) if f1 else 1)
    assert scores["node_accuracy"] == pytest.approx(np.mean(nodes))
    assert scores["exact_kinds"] == pytest.approx(np.mean(exact))
    assert ("directions" in scores) == directed
    if directed:
        assert scores["directions"] == pytest.approx(np.mean(directions) if directions else 1)
    if weights:
        one, other = np.array(weights).T
        assert scores["weight_error"] == pytest.approx(np.abs(one - other).mean())
        if len(weights) > 1:
            assert scores["weight_r2"] == pytest.approx(
                1 - ((one - other) ** 2).sum() / ((one - one.mean()) ** 2).sum()
            )


@given(data=st.data())
def test_the_edges_of_directed_graphs_are_scored_alike_in_lists_and_batches(data: st.DataObject) -> None:
    true, predicted = data.draw(pairs_of_graphs(True))
    batch, found = GraphBatch.from_graphs(true), GraphBatch.from_graphs(predicted)
    metric = EdgeScores(entries="directed")
    metric.update(found.adj.float(), batch.adj, batch.mask)
    scores = edge_scores(true, predicted)
    for name, value in metric.compute().items():
        assert scores[name] == pytest.approx(float(value), abs=1e-6), name
    assert "over ordered pairs" in str(scores)


@given(st.lists(graphs(), min_size=1, max_size=3))
def test_plain_graphs_have_no_scores_of_kinds(plain: list) -> None:
    assert kind_scores(plain, plain) == {}
    assert "type of edge" not in str(edge_scores(plain, plain))


def test_an_undirected_prediction_of_a_directed_graph_has_no_direction_right() -> None:
    one_way = make_graph(edges=[[0, 1], [1, 2]], num_nodes=3, directed=True)
    both = make_graph(edges=[[0, 1], [1, 2]], num_nodes=3)
    scores = edge_scores([one_way], [both])
    assert scores["directions"] == 0
    assert (scores["precision"], scores["recall"], scores["exact_kinds"]) == (0.5, 1, 0)


def test_a_prediction_in_numbers_means_the_words_of_the_truth() -> None:
    truth = nx.Graph([(0, 1, {"type": "push"}), (1, 2, {"type": "pull"})])
    guess = Data(num_nodes=3, edge_index=torch.tensor([[0, 1], [1, 0]]), edge_type=torch.tensor([1, 1]))
    scores = kind_scores([truth], [guess])
    assert scores.tables[0].names == ("pull", "push")
    assert scores.tables[0].confusion.tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 1]]
    assert "push" in str(scores)
    assert "true \\ predicted" in str(scores)


def test_probabilities_of_types_are_calibrated_where_they_are_shares() -> None:
    pairs = [[0, index] for index in range(1, 9)]
    truth = make_graph(edges=pairs, num_nodes=9, edge_type=[0, 0, 0, 1, 1, 1, 1, 1])
    guess = make_graph(edges=pairs, num_nodes=9, edge_type=[1] * 8)
    guess.edge_type_prob = torch.tensor([[3 / 8, 5 / 8]]).expand(16, 2)
    assert kind_scores([truth], [guess])["type_calibration_error"] == pytest.approx(0, abs=1e-7)
    guess.edge_type_prob = torch.tensor([[0.1, 0.9]]).expand(16, 2)
    assert kind_scores([truth], [guess]).tables[0].calibration == pytest.approx([3 / 8 - 0.1, 0.9 - 5 / 8])


def test_evaluate_shows_the_kinds_that_a_method_predicts() -> None:
    class Copies:
        """Knows the answer."""

        def predict(self, points):  # type: ignore[no-untyped-def]
            return next(graph for graph in true if torch.equal(graph.pos, points.pos)).to_data()

    rng = np.random.default_rng(0)
    true = [
        make_graph(rng.random((4, 2)), edges=[[0, 1], [2, 1]], edge_type=[0, 1], directed=True)
        for _ in range(3)
    ]
    scores = evaluate(Copies(), true)
    assert [scores[name] for name in ("dice", "type_f1_macro", "directions", "exact_kinds")] == [1, 1, 1, 1]
    assert "type of edge" in str(scores)
    assert scores.intervals["accuracy"][1] == 1.0

"""Copies are training graphs, each as often as another."""

from __future__ import annotations

import gln
from gln.baselines import Copy
from gln.graphs import make_graph


def test_samples_are_training_graphs_at_random() -> None:
    graphs = [make_graph(edges=[[0, i] for i in range(1, n)], num_nodes=n) for n in range(2, 7)]
    drawn = Copy().fit(graphs).sample(500, seed=1)
    assert gln.novelty(graphs, drawn)["novelty"] == 0
    counts = [sum(graph.num_nodes == n for graph in drawn) for n in range(2, 7)]
    assert sum(counts) == 500
    assert all(60 < count < 140 for count in counts)  # 100 expected, deviation 9
    drawn[0].edge_index.zero_()  # a copy is the user's own
    assert Copy().fit(graphs).sample(1, seed=1)[0].edge_index.any()


def test_fewer_copies_are_the_first_of_more() -> None:
    model = Copy().fit([make_graph(num_nodes=n) for n in range(1, 30)])
    few, many = model.sample(5, seed=2), model.sample(20, seed=2)
    assert [graph.num_nodes for graph in few] == [graph.num_nodes for graph in many[:5]]
    assert [graph.num_nodes for graph in many] != [graph.num_nodes for graph in model.sample(20, seed=3)]

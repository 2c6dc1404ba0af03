"""The constant graph against the mean of the matrices."""

from __future__ import annotations

import numpy as np
import pytest

import gln
from gln.baselines import Constant
from gln.errors import GLNError
from gln.graphs import make_graph


def test_the_edges_are_those_of_at_least_half_of_the_graphs() -> None:
    graphs = gln.family("community", size=5, order="ordered").sample(40, seed=0)
    mean = np.mean([gln.to_numpy(graph) for graph in graphs], axis=0)
    answer = gln.predict(Constant().fit(graphs), graphs[0])
    np.testing.assert_array_equal(gln.to_numpy(answer), mean >= 0.5)
    np.testing.assert_allclose(answer.edge_prob, mean[mean >= 0.5], rtol=1e-6)
    assert (mean[mean > 0] < 0.5).any(), "some edges must be rare, or nothing is tested"


def test_half_of_the_graphs_is_enough() -> None:
    with_edge, without = make_graph(edges=[[0, 1]], num_nodes=2), make_graph(num_nodes=2)
    assert Constant().fit([with_edge, without]).predict(without).num_edges == 2
    assert Constant().fit([with_edge, without, without]).predict(without).num_edges == 0


def test_graphs_of_mixed_size_are_refused() -> None:
    graphs = [make_graph(num_nodes=3), make_graph(num_nodes=5)]
    with pytest.raises(GLNError, match="3 to 5 nodes"):
        Constant().fit(graphs)
    with pytest.raises(GLNError, match="Got 5 nodes; this constant was fitted to graphs of 3"):
        Constant().fit(graphs[:1]).predict(graphs[1])

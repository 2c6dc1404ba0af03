"""The families of published tables: what they are made of, and how they are split."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from gln.errors import GLNError
from gln.evaluation.generation import is_planar, is_tree
from gln.families import Planar, Tree, family
from gln.graphs import to_networkx
from gln.workflows.training_data import family_data


def test_planar_graphs_are_triangulations() -> None:
    for graph in Planar().graphs(5):
        edges = len(graph.edges_once())
        assert is_planar(graph)
        assert 2 * graph.num_nodes < edges < 3 * graph.num_nodes - 3
        assert nx.is_biconnected(to_networkx(graph))


def test_trees_are_uniform() -> None:
    """Of the 16 labelled trees on 4 nodes, 4 are stars."""
    graphs = Tree(nodes=4).graphs(1200)
    assert all(map(is_tree, graphs))
    stars = np.mean([np.bincount(graph.edge_index[0]).max() == 3 for graph in graphs])
    assert abs(stars - 0.25) < 0.04
    assert len({graph.edge_index.numpy().tobytes() for graph in graphs}) == 16


def test_block_models_are_connected_and_as_dense_as_published() -> None:
    graphs = family("sbm").graphs(60)
    sizes = [graph.num_nodes for graph in graphs]
    assert min(sizes) >= 40
    assert max(sizes) <= 200
    assert abs(np.mean(sizes) - 105) < 15
    assert all(nx.is_connected(to_networkx(graph)) for graph in graphs)
    with pytest.raises(GLNError, match="inside=0"):
        family("sbm", inside=0.0)


def test_the_split_is_that_of_the_tables() -> None:
    assert [len(part) for part in family_data("tree:nodes=5", None, 0)] == [128, 32, 40]

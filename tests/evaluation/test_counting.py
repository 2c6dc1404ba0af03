"""Graphs that are counted together."""

import networkx as nx

from gln.evaluation.counting import Blocks
from gln.graphs import as_graph, make_graph


def test_blocks_keep_isolated_nodes_and_offsets() -> None:
    parts = [make_graph(num_nodes=2), make_graph(edges=[(0, 2)], num_nodes=4), as_graph(nx.path_graph(3))]
    blocks = Blocks.of(parts)
    assert blocks.edges.T.tolist() == [[2, 4], [4, 2], [6, 7], [7, 6], [7, 8], [8, 7]]
    assert blocks.degrees().tolist() == [0, 0, 1, 0, 1, 0, 1, 2, 1]
    assert blocks.nodes == [2, 4, 3]

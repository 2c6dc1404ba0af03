"""Graphs that are counted together, and the threads that small matrices do without."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import networkx as nx
import pytest
import torch

from gln.evaluation.counting import Blocks
from gln.evaluation.statistics import one_thread
from gln.graphs import as_graph, make_graph


def test_blocks_keep_isolated_nodes_and_offsets() -> None:
    parts = [make_graph(num_nodes=2), make_graph(edges=[(0, 2)], num_nodes=4), as_graph(nx.path_graph(3))]
    blocks = Blocks.of(parts)
    assert blocks.edges.T.tolist() == [[2, 4], [4, 2], [6, 7], [7, 6], [7, 8], [8, 7]]
    assert blocks.degrees().tolist() == [0, 0, 1, 0, 1, 0, 1, 2, 1]
    assert blocks.nodes == [2, 4, 3]


def test_the_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError), one_thread():
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 3

        both_inside = Barrier(2)

        def work(_: int) -> None:
            with one_thread():
                both_inside.wait(timeout=10)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)

"""How the counting is cut into pieces must not show."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import networkx as nx
import pytest
import torch

from gln.evaluation.counting import Blocks, route, sparse
from gln.evaluation.counting.threads import one_thread
from gln.evaluation.orbits import orbits
from gln.graphs import as_graphs, make_graph

GRAPHS = as_graphs(
    [
        nx.gnp_random_graph(25, 0.4, seed=0),
        nx.connected_caveman_graph(3, 9),
        nx.barabasi_albert_graph(90, 6, seed=1),
    ]
)


def test_lists_in_pieces_give_the_same_counts(monkeypatch) -> None:
    whole = orbits(GRAPHS, route="sparse")
    monkeypatch.setattr(sparse, "AT_ONCE", {"cpu": 7})
    in_pieces = orbits(GRAPHS, route="sparse")
    monkeypatch.setattr(sparse, "REMEMBER", 0)
    listed_twice = orbits(GRAPHS, route="sparse")
    assert all(
        torch.equal(a, b) and torch.equal(a, c)
        for a, b, c in zip(whole, in_pieces, listed_twice, strict=True)
    )


def test_pieces_are_in_order_and_bounded(monkeypatch) -> None:
    monkeypatch.setattr(sparse, "AT_ONCE", {"cpu": 10})
    work = torch.tensor([0, 3, 40, 0, 0, 4, 4, 4, 9, 1, 0])
    pieces = sparse._pieces(work)
    assert [i for start, end in pieces for i in range(start, end)] == list(range(len(work)))
    assert max(int(work[start:end].sum()) for start, end in pieces) <= 40 + 10
    assert sparse._pieces(torch.zeros(5, dtype=torch.int64)) == []


@pytest.mark.parametrize(
    ("nodes", "edges", "way"),
    [
        (100, 4950, "dense"),
        (100, 200, "sparse"),
        (10_000, 40_000_000, "sparse"),
        (1, 0, "dense"),
        (2, 0, "sparse"),
    ],
)
def test_the_rule(nodes, edges, way) -> None:
    assert route.choose(nodes, edges) == way


def test_every_graph_is_planned_once_and_batches_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(route, "DENSE_ENTRIES", 500)
    sizes = [30, 3, 12, 7, 12, 5, 40]
    graphs = as_graphs([nx.complete_graph(n) for n in sizes] + [nx.path_graph(50), nx.empty_graph(4)])
    groups = route.plan(graphs)
    assert sorted(i for _, members in groups for i in members) == list(range(len(graphs)))
    assert [members for way, members in groups if way == "sparse"] == [[7, 8]]
    for members in (members for way, members in groups if way == "dense"):
        assert len(members) == 1 or len(members) * max(sizes[i] for i in members) ** 2 <= 500


def test_blocks_keep_isolated_nodes_and_offsets() -> None:
    blocks = Blocks.of([make_graph(num_nodes=2), make_graph(edges=[(0, 2)], num_nodes=4), GRAPHS[0]])
    assert blocks.edges[:, 0].tolist() == [2, 4]
    assert blocks.degrees()[:6].tolist() == [0, 0, 1, 0, 1, 0]
    assert (blocks.nodes, blocks.links[:2], blocks.num_nodes) == ([2, 4, 25], [0, 1], 31)


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

"""Laws of the community family, and its layout against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.families import community as module
from gln.families.community import Community, spring_layout
from gln.graphs import to_networkx, to_numpy


@pytest.mark.parametrize(("communities", "size"), [(2, 3), (2, 20), (3, 4), (5, 6)])
def test_without_links_it_is_the_connected_caveman_graph_of_networkx(communities: int, size: int) -> None:
    (graph,) = Community(communities=communities, size=size, links=0, order="ordered").sample(1)
    caves = nx.connected_caveman_graph(communities, size)
    np.testing.assert_array_equal(
        to_numpy(graph), nx.to_numpy_array(caves, nodelist=range(communities * size))
    )


@pytest.mark.parametrize("order", ["set", "ordered"])
@pytest.mark.parametrize(("communities", "size", "links"), [(2, 20, 2), (4, 5, 2), (3, 4, 7)])
def test_the_links_are_new_edges_between_communities(
    communities: int, size: int, links: int, order: str
) -> None:
    for graph in Community(communities=communities, size=size, links=links, order=order).sample(20, seed=1):
        assert graph.num_edges / 2 == communities * size * (size - 1) / 2 + links
        assert graph.community.bincount().tolist() == [size] * communities
        ends = graph.community[graph.edge_index]
        assert (ends[0] != ends[1]).sum() / 2 == communities + links  # the ring, and the links


def test_ordered_links_join_the_first_two_communities() -> None:
    caves = set(nx.connected_caveman_graph(4, 5).edges)
    links = set()
    for graph in Community(communities=4, size=5, order="ordered").sample(60, seed=2):
        assert graph.community.tolist() == [node // 5 for node in range(20)]
        new = set(to_networkx(graph).edges) - caves
        assert len(new) == 2
        links |= new
    # The pair that the ring already joins (4, 5) never comes, every other pair does.
    assert links == {(i, j) for i in range(5) for j in range(5, 10)} - {(4, 5)}


def test_set_links_join_any_two_communities_about_equally_often() -> None:
    joined = torch.zeros(4, 4)
    count = 300
    for graph in Community(communities=4, size=3).sample(count, seed=3):
        joined.index_put_(tuple(graph.community[graph.edge_index]), torch.tensor(1.0), accumulate=True)
    ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
    free = {(i, j): 9 - ((i, j) in ring) for i in range(4) for j in range(i + 1, 4)}
    for (i, j), pairs in free.items():
        share = (joined[i, j] - count * ((i, j) in ring)) / (2 * count)
        assert share == pytest.approx(pairs / sum(free.values()), abs=0.06)


def test_nodes_stand_near_their_own_community() -> None:
    """Edges, layout and labels are shuffled alike."""
    for graph in Community(communities=4).sample(10, seed=4):
        distance = torch.cdist(graph.pos, graph.pos)
        same = graph.community[:, None] == graph.community
        joined = torch.zeros_like(same).index_put(tuple(graph.edge_index), torch.tensor(True))
        assert distance[same].mean() < 0.5 * distance[~same].mean()
        assert distance[joined].mean() < 0.5 * distance[~joined].mean()


@pytest.mark.parametrize("communities", [2, 4])
def test_positions_are_centred_fill_the_square_and_keep_apart(communities: int) -> None:
    for graph in Community(communities=communities).sample(60, seed=5):
        assert graph.pos.abs().max() == 1
        torch.testing.assert_close(graph.pos.mean(dim=0), torch.zeros(2), atol=1e-6, rtol=0)
        assert torch.pdist(graph.pos).min() > 1e-3


class TestSpringLayout:
    """The full layout of 40 nodes is chaotic, so that rounding decides it: of large graphs only the first
    steps are compared, of small ones all."""

    @pytest.mark.parametrize(
        ("communities", "size", "iterations"), [(2, 20, 1), (2, 20, 10), (4, 20, 10), (3, 4, 50)]
    )
    def test_it_is_that_of_networkx(self, communities: int, size: int, iterations: int) -> None:
        adjacency, start = problem(communities, size, extents=[1] * 4)
        expected = by_networkx(adjacency, start, iterations)
        np.testing.assert_allclose(spring_layout(adjacency, start, iterations), expected, rtol=0, atol=1e-6)

    def test_every_graph_of_a_batch_stops_for_itself(self) -> None:
        # The first step is a share of the start's extent, so narrow starts come to rest early: these after
        # 50, 46, 31 and 1 steps.
        adjacency, start = problem(3, 5, extents=[0.1, 0.03, 0.01, 0.003])
        expected = by_networkx(adjacency, start, 50)
        np.testing.assert_allclose(spring_layout(adjacency, start), expected, rtol=0, atol=1e-6)

    def test_neither_the_batch_nor_the_chunks_change_a_bit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        adjacency, start = problem(2, 20, extents=[1] * 7)
        whole = spring_layout(adjacency, start)
        alone = [spring_layout(adjacency[i : i + 1], start[i : i + 1])[0] for i in range(7)]
        np.testing.assert_array_equal(np.stack(alone), whole)
        monkeypatch.setattr(module, "CHUNK", 3 * 40**2)
        np.testing.assert_array_equal(spring_layout(adjacency, start), whole)


def problem(communities: int, size: int, extents: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """One graph with a start of each extent: adjacency ``[B, n, n]``, start ``[B, n, 2]``."""
    caves = nx.to_numpy_array(nx.connected_caveman_graph(communities, size), dtype=bool)
    start = np.random.default_rng(6).random((len(extents), len(caves), 2))
    return np.tile(caves, (len(extents), 1, 1)), start * np.array(extents)[:, None, None]


def by_networkx(adjacency: np.ndarray, start: np.ndarray, iterations: int) -> np.ndarray:
    layouts = [
        nx.spring_layout(nx.from_numpy_array(matrix), pos=dict(enumerate(points)), iterations=iterations)
        for matrix, points in zip(adjacency, start, strict=True)
    ]
    return np.stack([[layout[node] for node in range(len(layout))] for layout in layouts])


def test_the_paper_has_300_graphs_of_two_communities_and_500_of_four() -> None:
    assert Community().paper_count == 300
    assert Community(communities=4, order="ordered").paper_count == 500
    assert Community(communities=3).paper_count is None
    assert Community(size=10).paper_count is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"communities": 1}, "communities=1; expected a whole number of at least 2"),
        ({"size": 2}, "size=2; expected a whole number of at least 3"),
        ({"size": 4.5}, "size=4.5"),
        ({"links": -1}, "links=-1"),
        ({"size": 3, "links": 8}, "links=8, but only 7 pairs"),
        ({"communities": 3, "size": 3, "order": "ordered", "links": 9}, "links=9, but only 8 pairs"),
    ],
)
def test_impossible_communities_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        Community(**parameters)


def test_all_possible_links_can_be_drawn() -> None:
    (graph,) = Community(size=3, links=7).sample(1)
    ends = graph.community[graph.edge_index]
    assert (ends[0] != ends[1]).sum() / 2 == 9  # all pairs between the two communities


@pytest.mark.parametrize("order", ["set", "ordered"])
@pytest.mark.parametrize(("communities", "size"), [(2, 3), (2, 5), (3, 3), (4, 6)])
def test_free_pairs_are_counted_without_listing_them(communities: int, size: int, order: str) -> None:
    member = Community(communities=communities, size=size, order=order)
    assert member._count_free_pairs() == len(member._free_pairs())


def test_more_iterations_move_the_same_graphs_further() -> None:
    few, many = (Community(iterations=steps, order="ordered").sample(3, seed=1) for steps in (50, 100))
    for one, other in zip(few, many, strict=True):
        assert torch.equal(one.edge_index, other.edge_index)
        assert not torch.allclose(one.pos, other.pos)
    with pytest.raises(GLNError, match="iterations=0"):
        Community(iterations=0)

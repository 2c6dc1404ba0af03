"""Patches and regions are honest parts of the graph they were cut from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.graphs import check_graph, make_graph
from gln.graphs.split import cut_cells, cut_patches, judged_part, neighbours_of, subgraph
from tests.conftest import assert_same_graph


def numbered(nodes: int, seed: int = 0) -> Data:
    """A mesh-like graph whose ``x`` says which node is which."""
    graph = gln.family("delaunay", points=nodes).sample(1, seed=seed)[0]
    return make_graph(
        graph.pos, torch.arange(nodes)[:, None], graph.edge_index.T[graph.edge_index[0] < graph.edge_index[1]]
    )


def assert_induced(part: Data, whole: Data) -> list[int]:
    """The part has exactly the edges that the whole has among its nodes; returns their numbers."""
    check_graph(part)
    nodes = part.x[:, 0].long().tolist()
    assert torch.equal(part.pos, whole.pos[nodes])
    among = {(i, j) for i, j in whole.edge_index.T.tolist() if i in nodes and j in nodes}
    assert {(nodes[i], nodes[j]) for i, j in part.edge_index.T.tolist()} == among
    return nodes


def test_a_patch_is_a_node_and_those_nearest_to_it_with_all_edges_among_them() -> None:
    whole = numbered(60)
    patches = cut_patches(whole, size=12, count=20, seed=1)
    assert len(patches) == 20
    distance = torch.cdist(whole.pos.double(), whole.pos.double())
    balls = {tuple(sorted(row.argsort()[:12].tolist())) for row in distance}
    for patch in patches:
        assert tuple(assert_induced(patch, whole)) in balls


def test_the_seed_decides_and_centres_are_distinct_while_they_last() -> None:
    whole = numbered(30)
    for one, other in zip(cut_patches(whole, 5, 8, seed=3), cut_patches(whole, 5, 8, seed=3), strict=True):
        assert_same_graph(one, other)
    firsts, others = (
        torch.cat([patch.x for patch in cut_patches(whole, 5, 8, seed=seed)]) for seed in (3, 4)
    )
    assert not torch.equal(firsts, others)
    everyone = torch.cat([patch.x for patch in cut_patches(whole, 2, 60, seed=0)])
    assert set(everyone[:, 0].tolist()) == set(range(30))


def test_a_patch_larger_than_the_graph_is_the_graph() -> None:
    whole = numbered(7)
    for patch in cut_patches(whole, 50, 3):
        assert_same_graph(patch, whole)


def test_a_patch_of_any_nodes_is_not_local() -> None:
    whole = numbered(60)
    spreads = [
        np.mean([part.pos.std().item() for part in cut_patches(whole, 12, 20, local=local)])
        for local in (True, False)
    ]
    for part in cut_patches(whole, 12, 20, local=False):
        assert len(assert_induced(part, whole)) == 12
    assert spreads[1] > 1.5 * spreads[0]


@pytest.mark.parametrize("most", [50, 25, 7, 1])
def test_cells_share_no_node_and_lose_none_and_are_alike(most: int) -> None:
    whole = numbered(50)
    cells = cut_cells(whole, most)
    assert sorted(np.concatenate(cells)) == list(range(50))
    assert max(map(len, cells)) <= most
    assert max(map(len, cells)) <= min(map(len, cells)) + 1
    for cell in cells:
        assert_induced(subgraph(whole, cell), whole)


def test_cells_are_cut_across_the_longest_extent() -> None:
    pos = torch.rand(40, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 100.0])
    low, high = cut_cells(make_graph(pos, edges=[]), 20)
    assert float(pos[low, 1].max()) < float(pos[high, 1].min())


def test_what_is_judged_are_pairs_whose_values_reach_two() -> None:
    whole = numbered(30)
    chosen = np.arange(0, 30, 4)
    for value in (1, 2):
        judged = torch.zeros(30, dtype=torch.int64)
        judged[chosen] = value
        part = judged_part(whole, judged)
        names = part.x[:, 0].long()
        found = {(int(names[i]), int(names[j])) for i, j in part.edge_index.T.tolist()}
        assert found == {(i, j) for i, j in whole.edge_index.T.tolist() if int(judged[i] + judged[j]) >= 2}
        count = sum(int(judged[i] + judged[j]) >= 2 for i in range(30) for j in range(i))
        total = float(gln.edge_scores([part], [part.with_edges(part.edge_index[:, :0])])["accuracy"])
        assert total == pytest.approx(
            1 - part.num_edges / (2 * count)
        )  # of pairs that count, true edges alone are missed
    assert judged_part(whole, None) is whole


def test_neighbours_are_those_that_an_edge_joins() -> None:
    whole = numbered(20)
    expected = {j for i, j in whole.edge_index.T.tolist() if i in (3, 4)}
    assert set(neighbours_of(whole, np.array([3, 4])).tolist()) == expected


@pytest.mark.parametrize(("size", "count"), [(1, 3), (5, 0)])
def test_a_mistake_is_one_sentence(size: int, count: int) -> None:
    with pytest.raises(GLNError, match="expected at least 2 nodes"):
        cut_patches(numbered(5), size, count)


def test_too_small_a_graph_is_not_cut() -> None:
    with pytest.raises(GLNError, match="neither pos nor x"):
        cut_patches(make_graph(num_nodes=5), 2, 1)


def test_what_a_graph_says_of_its_nodes_and_edges_is_cut_too() -> None:
    whole = numbered(40)
    whole.edge_weight = torch.arange(whole.num_edges)
    whole.label = torch.arange(40) * 2
    whole.names = [f"node {number}" for number in range(40)]
    whole.title = "mesh"
    source, target = whole.edge_index
    for part in [*cut_patches(whole, 9, 5), subgraph(whole, np.arange(3, 30))]:
        nodes = part.x[:, 0].long()
        assert torch.equal(part.label, nodes * 2)
        assert part.names == [f"node {number}" for number in nodes.tolist()]
        assert part.title == "mesh"
        assert torch.equal(source[part.edge_weight], nodes[part.edge_index[0]])
        assert torch.equal(target[part.edge_weight], nodes[part.edge_index[1]])
    assert whole.num_nodes == len(whole.x) == 40


@pytest.mark.parametrize("directed", [False, True])
def test_kinds_are_cut_with_their_edges_and_nodes(directed: bool) -> None:
    rng, nodes = np.random.default_rng(0), 12
    matrix = np.triu(rng.random((nodes, nodes)), 1) * (rng.random((nodes, nodes)) < 0.4)
    pairs = np.argwhere(matrix if not directed else matrix + matrix.T * (rng.random((nodes, nodes)) < 0.5))
    whole = make_graph(
        rng.random((nodes, 2)),
        np.arange(nodes)[:, None],
        pairs,
        edge_type=pairs.sum(axis=1) % 3,
        edge_weight=1 + pairs.sum(axis=1),
        node_type=np.arange(nodes) % 4,
        directed=directed,
    )
    whole.edge_type_names, whole.node_type_names = ("a", "b", "c"), tuple("a" * 5 + "bcdefgh")
    judged = torch.tensor([2, 1, 1] + [0] * (nodes - 3))
    patches = cut_patches(whole, 5, 6)
    for part in [*patches, judged_part(whole, judged.clamp(max=1)), judged_part(whole, judged)]:
        check_graph(part)
        number = part.x[:, 0].long()
        ends = number[part.edge_index].sum(0)
        assert part.edge_type.equal(ends % 3)
        assert part.edge_weight.equal(1.0 + ends)
        assert part.node_type.equal(number % 4)
        assert part.directed == directed
        assert part.edge_type_names == whole.edge_type_names
        assert part.node_type_names == whole.node_type_names
    assert judged_part(whole, judged).scored_pairs == (nodes - 1 + 1) * (2 if directed else 1)
    near = set(neighbours_of(whole, np.array([3])).tolist())
    assert near == {i + j - 3 for i, j in pairs.tolist() if 3 in (i, j)}

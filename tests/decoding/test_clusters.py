"""Clusters are what slow and obvious references say, whatever the order of the nodes."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.decoding.clusters import choose_cut, clusters
from gln.errors import GLNError
from gln.evaluation import adjusted_rand
from gln.graphs.regions import region_edges


def scored(nodes: int, pairs: list[tuple[int, int]], chances: list[float], **more: Any) -> Data:
    """A prediction; every pair once."""
    graph = gln.make_graph(edges=np.array(pairs).reshape(-1, 2), num_nodes=nodes, **more)
    chance = dict(zip(pairs, chances, strict=True))
    ends = graph.edge_index.T.tolist()
    graph.edge_prob = torch.tensor([chance[min(a, b), max(a, b)] for a, b in ends])
    return graph


def drawn(seed: int, nodes: int = 12, share: float = 0.4) -> Data:
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations(range(nodes), 2) if rng.random() < share]
    return scored(nodes, pairs, rng.random(len(pairs)).tolist())


def groups(labels: torch.Tensor) -> set[frozenset[int]]:
    return {frozenset((labels == k).nonzero().flatten().tolist()) for k in labels.unique()}


def slow_linkage(graph: Data, cut: float) -> set[frozenset[int]]:
    """Join the two groups with the highest mean, computed anew each time."""
    chance = {
        (a, b): p for (a, b), p in zip(graph.edge_index.T.tolist(), graph.edge_prob.tolist(), strict=True)
    }
    found = [frozenset([node]) for node in range(graph.num_nodes)]
    while True:
        best, join = cut, None
        for one, two in itertools.combinations(found, 2):
            between = [chance[a, b] for a in one for b in two if (a, b) in chance]
            if between and np.mean(between) >= best:
                best, join = float(np.mean(between)), (one, two)
        if join is None:
            return set(found)
        found = [group for group in found if group not in join] + [join[0] | join[1]]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cut", [0.0, 0.45, 0.7])
def test_linkage_joins_the_strongest_mean_again_and_again(seed: int, cut: float) -> None:
    graph = drawn(seed)
    assert groups(clusters(graph, "linkage", cut=cut)) == slow_linkage(graph, cut)


def test_components_are_those_of_the_edges_from_the_cut_on() -> None:
    graph = drawn(3, share=0.2)
    kept = [pair for pair, p in zip(graph.edge_index.T.tolist(), graph.edge_prob, strict=True) if p >= 0.5]
    expected = nx.Graph(kept)
    expected.add_nodes_from(range(12))
    found = clusters(graph, "components", cut=0.5)
    assert groups(found) == set(map(frozenset, nx.connected_components(expected)))


@pytest.mark.parametrize("method", ["linkage", "louvain", "components"])
def test_clusters_are_numbered_by_their_first_node_and_follow_the_nodes(method: Any) -> None:
    pairs = [(a, b) for a, b in itertools.combinations(range(12), 2) if a % 3 == b % 3]  # three cliques
    graph = scored(12, [*pairs, (0, 1), (4, 5)], [0.9] * len(pairs) + [0.4] * 2)
    assert clusters(graph, method, cut=0.5).tolist() == [0, 1, 2] * 4
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    moved = {
        (int(a), int(b)): p for (a, b), p in zip(order[graph.edge_index].T, graph.edge_prob, strict=True)
    }
    once = {pair: p for pair, p in moved.items() if pair[0] < pair[1]}
    labels = clusters(scored(12, list(once), [float(p) for p in once.values()]), method, cut=0.5)
    assert groups(labels[order]) == groups(torch.tensor([0, 1, 2] * 4))


def image(columns: int, rows: int, region: torch.Tensor, leak: float) -> Data:
    """A prediction for an image: right everywhere but for one edge between its regions."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    pos = torch.stack([column, row], dim=-1).reshape(-1, 2).float()
    inside = region_edges(pos, region)
    everywhere = region_edges(pos, torch.zeros_like(region))
    across = everywhere[:, region[everywhere[0]] != region[everywhere[1]]][:, :1]
    pairs = torch.cat([inside, across, across.flip(0)], dim=1)
    once = [(a, b) for a, b in pairs.T.tolist() if a < b]
    wrong = sorted(across[:, 0].tolist())
    return scored(
        len(pos),
        once,
        [leak if [a, b] == wrong else 0.99 for a, b in once],
        pos=pos,
        x=torch.rand(len(pos), 3),
    )


def test_one_wrong_edge_joins_components_but_not_the_regions_of_an_image() -> None:
    region = (torch.arange(6 * 8) % 6 >= 3).long()  # left and right half
    graph = image(6, 8, region, leak=0.9)
    assert len(clusters(graph, "components").unique()) == 1
    assert torch.equal(clusters(graph), region)  # the seven other pairs of the border count 0


def test_louvain_weighs_edges_by_their_probability() -> None:
    pairs = list(itertools.combinations(range(8), 2))  # all pairs are edges: only the weights tell
    graph = scored(8, pairs, [0.9 if (a < 4) == (b < 4) else 0.1 for a, b in pairs])
    assert clusters(graph).tolist() == [0] * 4 + [1] * 4
    graph.edge_prob = torch.ones(graph.num_edges)
    assert len(clusters(graph).unique()) == 1


def test_a_graph_without_probabilities_has_certain_edges() -> None:
    graph = drawn(1)
    bare = Data(edge_index=graph.edge_index, num_nodes=12)
    graph.edge_prob = torch.ones(graph.num_edges)
    for method in ("linkage", "louvain", "components"):
        assert torch.equal(clusters(bare, method), clusters(graph, method))
    assert clusters(gln.make_graph(num_nodes=3)).tolist() == [0, 1, 2]


def test_the_cut_is_the_one_that_agrees_best() -> None:
    true = scored(4, [(0, 1), (2, 3)], [1.0, 1.0])
    guess = scored(4, [(0, 1), (1, 2), (2, 3)], [0.85, 0.75, 0.85])
    assert choose_cut([true], [guess]) == 0.8
    true.community = torch.zeros(4)  # what the graph says of itself counts more than its components
    assert choose_cut([true], [guess]) <= 0.7
    found = [clusters(guess, "components", cut=cut) for cut in (0.7, 0.8)]
    assert adjusted_rand([torch.zeros(4).long()] * 2, found).tolist() == [1, 0]


@pytest.mark.parametrize(
    "wrong", [{"method": "leiden"}, {"cut": 1.5}, {"cut": float("nan")}, {"resolution": 0}]
)
def test_a_wrong_setting_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(GLNError):
        clusters(drawn(0), **wrong)


def test_what_is_no_probability_is_refused() -> None:
    graph = drawn(0)
    graph.edge_prob[0] = float("nan")
    with pytest.raises(GLNError, match="outside 0 to 1"):
        clusters(graph)

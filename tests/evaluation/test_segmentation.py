"""The adjusted Rand index counts pairs of nodes; segments are connected components."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given

from gln.errors import GLNError
from gln.evaluation import adjusted_rand, component_labels, largest_components, segmentation_scores
from gln.graphs import as_graph, make_graph, to_networkx
from tests.conftest import graphs


def by_pairs(first: list[int], second: list[int]) -> float:
    """Pairs together in both, less what chance expects, over the most there could be, less the same."""
    pairs = list(itertools.combinations(range(len(first)), 2))
    one = {(i, j) for i, j in pairs if first[i] == first[j]}
    other = {(i, j) for i, j in pairs if second[i] == second[j]}
    chance = len(one) * len(other) / max(len(pairs), 1)
    most = (len(one) + len(other)) / 2
    return (len(one & other) - chance) / (most - chance) if most != chance else 1.0


labels = st.integers(1, 8).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-1, 3), min_size=n, max_size=n)] * 2)
)


@given(st.lists(labels, min_size=1, max_size=5))
def test_adjusted_rand_equals_counting_pairs(cases) -> None:
    first, second = ([torch.tensor(case[k]) for case in cases] for k in (0, 1))
    expected = [by_pairs(*case) for case in cases]
    assert adjusted_rand(first, second).tolist() == pytest.approx(expected, abs=1e-12)
    assert torch.equal(adjusted_rand(second, first), adjusted_rand(first, second))
    renamed = [7 - label for label in first]  # names do not matter
    assert adjusted_rand(first, renamed).tolist() == [1] * len(cases)


@given(st.lists(graphs(pos_width=None), min_size=1, max_size=4))
def test_components_are_those_of_networkx(many) -> None:
    found = component_labels(many)
    largest = largest_components(many)
    for graph, label, big in zip(many, found, largest, strict=True):
        parts = list(nx.connected_components(to_networkx(graph)))
        found_parts = {frozenset((label == k).nonzero().flatten().tolist()) for k in label.unique()}
        assert found_parts == set(map(frozenset, parts))
        biggest = to_networkx(graph).subgraph(max(parts, key=len))
        order = {node: i for i, node in enumerate(sorted(biggest))}
        assert set(to_networkx(big).edges) == {tuple(sorted((order[a], order[b]))) for a, b in biggest.edges}
        assert big.num_nodes == len(biggest)
    assert torch.cat(found).unique().numel() == sum(label.unique().numel() for label in found)


def test_one_wrong_edge_can_merge_two_regions() -> None:
    true = as_graph(nx.disjoint_union(nx.path_graph(5), nx.path_graph(5)))
    true.region = torch.tensor([3] * 5 + [8] * 5)
    merged = as_graph(nx.path_graph(10))
    assert segmentation_scores([true], [true]) == {"ari_components": 1, "ari_regions": 1}
    assert segmentation_scores([true, true], [true, merged]) == {"ari_components": 0.5, "ari_regions": 0.5}


def test_regions_need_not_be_connected() -> None:
    true = make_graph(num_nodes=4, edges=[(0, 1), (2, 3)])
    true.region = torch.zeros(4, dtype=torch.int64)
    assert segmentation_scores([true], [true]) == {"ari_components": 1, "ari_regions": 0}


def test_mistakes_are_named() -> None:
    plain, marked = make_graph(num_nodes=2), make_graph(num_nodes=2)
    marked.region = torch.zeros(2)
    with pytest.raises(GLNError, match="true\\[0\\] has no region"):
        segmentation_scores([plain, marked], [plain, plain])
    with pytest.raises(GLNError, match="has 3 nodes"):
        segmentation_scores([plain], [make_graph(num_nodes=3)])


@pytest.mark.parametrize("act", [component_labels, largest_components])
def test_components_take_any_graph_and_no_notice_of_directions(act) -> None:
    network = nx.disjoint_union(nx.path_graph(2), nx.path_graph(4))
    (found,), (expected,) = act([nx.to_numpy_array(network)]), act([as_graph(network)])
    assert str(found) == str(expected)
    one_way = nx.DiGraph(network.edges)
    assert str(act([one_way])[0]) == str(expected)


@pytest.mark.parametrize("convert", [list, np.array, torch.tensor, lambda r: torch.tensor(r).double()])
def test_regions_are_whole_numbers_of_any_kind(convert) -> None:
    graph = make_graph(num_nodes=3, edges=[(0, 1)])
    graph.region = convert([5, 5, 2])
    assert segmentation_scores([graph], [graph])["ari_regions"] == 1


@pytest.mark.parametrize(
    ("region", "words"),
    [([0, 0.5], "0.5"), ([0.0, float("nan")], "nan"), (["a", "b"], "'a'"), ([0], "whole number for each")],
)
def test_other_regions_are_refused(region, words) -> None:
    graph = make_graph(num_nodes=2)
    graph.region = region
    with pytest.raises(GLNError, match=f"true\\[0\\] has .*{words}"):
        segmentation_scores([graph], [graph])

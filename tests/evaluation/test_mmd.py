"""MMD equals a slow, obvious evaluation, and obeys the laws of a distance between sets."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings

from gln.errors import GLNError
from gln.evaluation import DESCRIPTORS, METRICS, Descriptor, Kernel, mmd
from gln.evaluation.mmd import _binned
from gln.graphs import as_graph, make_graph, to_networkx, to_numpy, to_scipy
from tests.conftest import graphs
from tests.evaluation import slow

# Mixed sizes; no edges, isolated nodes, a single node, disconnected, trees, dense and complete.
FIRST = [
    nx.gnp_random_graph(11, 0.3, seed=1),
    nx.empty_graph(4),
    nx.star_graph(7),
    nx.connected_caveman_graph(2, 5),
    nx.disjoint_union(nx.cycle_graph(5), nx.empty_graph(2)),
]
SECOND = [
    nx.gnp_random_graph(9, 0.6, seed=2),
    nx.empty_graph(1),
    nx.complete_graph(6),
    nx.grid_2d_graph(3, 4),
]

graph_sets = st.lists(graphs(pos_width=None), min_size=2, max_size=5)


def test_default_is_graphrnns_evaluation() -> None:
    assert dict(mmd(FIRST, SECOND)) == pytest.approx(slow.graphrnn(FIRST, SECOND), abs=1e-9)


@settings(max_examples=10)
@given(graph_sets, graph_sets)
def test_default_is_graphrnns_evaluation_for_any_graphs(first, second) -> None:
    slowly = slow.graphrnn([to_networkx(g) for g in first], [to_networkx(g) for g in second])
    assert dict(mmd(first, second)) == pytest.approx(slowly, abs=1e-9)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize(
    ("descriptor", "kernel", "describe", "distance", "sigma"),
    [
        ("degree", "tv", slow.degree, slow.variation, 1.0),
        ("clustering", "tv", slow.clustering, slow.variation, 0.1),
        ("orbit", "tv", slow.orbit, slow.variation, 30.0),
        ("clustering", "rbf", slow.clustering, slow.euclidean, 0.1),
        ("clustering", Kernel("rbf", 0.7), slow.clustering, slow.euclidean, 0.7),
        ("spectrum", None, slow.spectrum, slow.variation, 1.0),
        ("spectrum", "emd", slow.spectrum, lambda x, y: slow.emd(x, y, 100), 1.0),
    ],
)
def test_other_kernels_and_estimators(descriptor, kernel, describe, distance, sigma, unbiased) -> None:
    ours = mmd(FIRST, SECOND, [descriptor], kernel=kernel, estimator="unbiased" if unbiased else "biased")
    slowly = slow.squared(
        FIRST, SECOND, describe, lambda x, y: slow.gaussian(distance(x, y), sigma), unbiased
    )
    assert ours[descriptor] == pytest.approx(slowly, abs=1e-9)


def test_largest_component_first() -> None:
    def largest(graph: nx.Graph) -> nx.Graph:
        return graph.subgraph(max(nx.connected_components(graph), key=len))

    expected = mmd([largest(graph) for graph in FIRST], [largest(graph) for graph in SECOND])
    assert mmd(FIRST, SECOND, largest_component=True) == pytest.approx(dict(expected), abs=1e-12)
    assert mmd(FIRST, SECOND, largest_component=True)["degree"] != mmd(FIRST, SECOND)["degree"]


@given(graph_sets, graph_sets, st.randoms(use_true_random=False))
def test_order_of_graphs_nodes_and_sets_cannot_matter(first, second, random) -> None:
    def renamed(graph):
        order = torch.tensor(random.sample(range(graph.num_nodes), graph.num_nodes))
        edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
        return make_graph(edges=order[edges].T, num_nodes=graph.num_nodes)

    value = dict(mmd(first, second, list(DESCRIPTORS)))
    shuffled = [renamed(graph) for graph in random.sample(first, len(first))]
    assert mmd(shuffled, second, list(DESCRIPTORS)) == pytest.approx(value, abs=1e-9)
    assert mmd(second, first, list(DESCRIPTORS)) == pytest.approx(value, abs=1e-9)


@given(graph_sets)
def test_a_set_is_at_distance_zero_from_itself(many) -> None:
    assert mmd(many, many, list(DESCRIPTORS)) == pytest.approx(dict.fromkeys(DESCRIPTORS, 0), abs=1e-12)


@pytest.mark.parametrize("kernel", [None, "tv", "rbf"])
def test_unbiased_estimates_of_one_pool_average_to_zero(kernel) -> None:
    pool = [nx.gnp_random_graph(8, 0.1 + 0.1 * i, seed=i) for i in range(6)]
    sums = {"biased": 0.0, "unbiased": 0.0}
    for half in itertools.combinations(range(6), 3):  # every way to split the pool
        parts = [[pool[i] for i in range(6) if (i in half) == side] for side in (True, False)]
        for estimator in sums:
            sums[estimator] += sum(mmd(*parts, kernel=kernel, estimator=estimator).values())
    assert sums["unbiased"] == pytest.approx(0, abs=1e-10)
    assert sums["biased"] > 1e-3


def test_every_kind_of_graph_is_the_same_graph() -> None:
    kinds = [as_graph, to_numpy, to_scipy, lambda g: torch.from_numpy(to_numpy(g)), to_networkx]
    mixed = [kind(as_graph(g)) for kind, g in zip(kinds, FIRST, strict=True)]
    assert mmd(mixed, iter(SECOND)) == mmd(FIRST, SECOND)


def test_bins_are_those_of_numpy_even_on_their_edges() -> None:
    values = np.unique([t / (d * (d - 1)) for d in range(2, 40) for t in range(0, d * (d - 1) + 1, 2)])
    ours = _binned([torch.from_numpy(values)], 0, 1, 100)[0].numpy() * len(values)
    assert ours == pytest.approx(np.histogram(values, bins=100, range=(0, 1))[0], abs=1e-9)


def test_subsets() -> None:
    everything = {"subsets": 40, "seed": 3}
    whole = mmd(FIRST, FIRST[::-1], subset_size=5, **everything)
    for name, interval in whole.intervals.items():  # a subset of all graphs is all graphs
        assert interval == pytest.approx((whole[name],) * 3, abs=1e-12)
    some = mmd(FIRST, SECOND, **everything)
    assert some.intervals == mmd(FIRST, SECOND, **everything).intervals
    assert some.intervals != mmd(FIRST, SECOND, subsets=40, seed=4).intervals
    assert all(low <= mean <= high and low < high for mean, low, high in some.intervals.values())
    assert some == mmd(FIRST, SECOND)  # asking for intervals does not change the value


def test_subset_estimates_are_estimates_of_subsets() -> None:
    """All pairs of single graphs are so few that many draws of one graph see each of them."""
    drawn = mmd(FIRST[:2], SECOND[:1], ["degree"], subsets=300, subset_size=1).intervals["degree"]
    each = sorted(mmd([graph], SECOND[:1], ["degree"])["degree"] for graph in FIRST[:2])
    assert [drawn.low, drawn.high] == pytest.approx(each, abs=1e-12)


def test_floor_is_the_distance_of_floor_and_reference() -> None:
    train = [nx.gnp_random_graph(10, 0.4, seed=seed) for seed in range(3)]
    for estimator in ("biased", "unbiased"):
        result = mmd(FIRST, SECOND, floor=train, estimator=estimator)
        assert result.floor == pytest.approx(dict(mmd(FIRST, train, estimator=estimator)), abs=1e-12)
        assert result == pytest.approx(dict(mmd(FIRST, SECOND, estimator=estimator)), abs=1e-12)


def test_table_says_how_it_was_made() -> None:
    shown = str(mmd(FIRST, SECOND, floor=FIRST[:2], subsets=5, subset_size=3, largest_component=True))
    for words in (
        "MMD² ↓",
        "Gaussian EMD, σ=0.1",
        "RBF, σ=30",
        "MMD squared, biased (V-statistic)",
        "5 reference and 4 predicted graphs, largest components only",
        "2 floor graphs",
        "5 random draws of 3 graphs",
    ):
        assert words in shown
    assert mmd(FIRST, SECOND, ["orbit"], kernel="tv").summary == (
        "MMD squared, biased (V-statistic), 5 reference and 4 predicted graphs; orbit: Gaussian TV, σ=30"
    )
    assert "unbiased (U-statistic)" in str(mmd(FIRST, SECOND, estimator="unbiased"))


def test_a_descriptor_of_ones_own() -> None:
    def count(graphs: list, _: object) -> torch.Tensor:
        return torch.tensor([[graph.num_edges / 2] for graph in graphs]).double()

    edges = Descriptor("edges", count, Kernel("rbf", 2.0))
    counts = [[[float(g.number_of_edges())] for g in part] for part in (FIRST, SECOND)]
    slowly = slow.squared(*counts, lambda v: v, lambda x, y: slow.gaussian(slow.euclidean(x, y), 2.0))
    assert mmd(FIRST, SECOND, [edges])["edges"] == pytest.approx(slowly, abs=1e-12)


def test_kinds_of_edges_do_not_matter() -> None:
    weighted = [nx.Graph(graph) for graph in FIRST]
    for graph in weighted:
        nx.set_edge_attributes(graph, 0.5, "weight")
    with pytest.warns(UserWarning, match="edge_weight is not looked at"):
        assert dict(mmd(weighted, SECOND)) == dict(mmd(FIRST, SECOND))
    one_way = [nx.DiGraph(sorted(graph.edges)) for graph in FIRST if graph.number_of_edges()]
    both = [nx.Graph(graph) for graph in one_way]
    assert dict(mmd(one_way, SECOND)) == dict(mmd(both, SECOND))
    assert dict(mmd(one_way, SECOND, largest_component=True)) == dict(
        mmd(both, SECOND, largest_component=True)
    )


NAN = np.array([[0, np.nan], [np.nan, 0]])


@pytest.mark.parametrize(
    ("reference", "predicted", "options", "words"),
    [
        ([np.triu(np.ones((3, 3)), 1)], FIRST, {}, "reference\\[0\\]: .* directed"),
        (FIRST, [nx.path_graph(2), np.array([[0, 1], [0, 0]])], {}, "predicted\\[1\\]: .* directed"),
        (FIRST, [np.array([[0, -0.5], [-0.5, 0]])], {}, "predicted\\[0\\]: .* -0.5"),
        (FIRST, [sp.csr_array(NAN)], {}, "predicted\\[0\\]: .* nan"),
        (FIRST, [nx.empty_graph(0)], {}, "predicted\\[0\\]: .* no nodes"),
        ([], FIRST, {}, "reference is empty"),
        (FIRST, FIRST, {"floor": []}, "floor is empty"),
        (nx.path_graph(3), FIRST, {}, "expected a list of graphs"),
        (FIRST, FIRST, {"descriptors": ["colour"]}, "no descriptor 'colour'"),
        (FIRST, FIRST, {"descriptors": []}, "at least one"),
        (FIRST, FIRST, {"descriptors": ["degree", "degree"]}, "each only once"),
        (FIRST, FIRST, {"kernel": "cosine"}, "distance='cosine'; choose from emd"),
        (FIRST, FIRST, {"kernel": "emd"}, '"emd" kernel compares histograms'),
        (FIRST, FIRST, {"estimator": "best"}, "estimator='best'; choose from biased"),
        (FIRST, FIRST[:1], {"estimator": "unbiased"}, "at least 2 graphs"),
        (FIRST, FIRST, {"subsets": 3, "subset_size": 6}, "subset_size=6"),
        (FIRST, FIRST, {"subsets": -1}, "subsets=-1"),
        (FIRST, FIRST, {"subsets": 2.5}, "subsets=2.5"),
        (FIRST, FIRST, {"subsets": 2, "subset_size": "1"}, "subset_size='1'"),
        (FIRST, FIRST, {"subset_size": 2}, "subset_size=2 without subsets"),
        (FIRST, FIRST, {"seed": 0.5}, "seed=0.5"),
        (FIRST, FIRST, {"seed": 2**70}, "expected a whole number from 0"),
        (FIRST, FIRST, {"kernel": 3}, "distance=3"),
        (FIRST, FIRST, {"descriptors": None}, "descriptors=None"),
        (FIRST, FIRST, {"descriptors": [3]}, "no descriptor 3"),
        (FIRST, FIRST, {"device": "abacus"}, "device='abacus'"),
        (FIRST, FIRST, {"device": "meta"}, "device='meta'"),
        (FIRST, FIRST, {"device": "cuda:99"}, "device='cuda:99'"),
    ],
)
def test_mistakes_are_named(reference, predicted, options, words) -> None:
    with pytest.raises(GLNError, match=words):
        mmd(reference, predicted, **options)


def test_one_descriptor_needs_no_list() -> None:
    assert mmd(FIRST, SECOND, "degree") == mmd(FIRST, SECOND, ("degree",))
    assert mmd(FIRST, SECOND, DESCRIPTORS["degree"]) == mmd(FIRST, SECOND, "degree")


def test_the_unbiased_estimate_stays_in_the_stated_range() -> None:
    info = METRICS["mmd_degree"]
    apart = [nx.empty_graph(9), nx.complete_graph(9)]
    assert info.low <= mmd(apart, apart, "degree", estimator="unbiased")["degree"] < 0

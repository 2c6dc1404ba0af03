"""The scores of published tables, against slow and obvious references; and which graphs are valid."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline

from gln.errors import GLNError
from gln.evaluation import mmd
from gln.evaluation.generation import TABLES, fits_blocks, generation_scores, is_planar, is_sbm, is_tree
from gln.families import family
from gln.graphs import as_graph, to_networkx
from gln.graphs.record import Graph

TRAIN, TEST, MADE = (family("planar", nodes=12).graphs(count, seed=count) for count in (10, 7, 9))


def histogram(graph: Graph, name: str) -> np.ndarray:
    """What the tables compute of a graph, with networkx and numpy."""
    plain = to_networkx(graph)
    if name == "degree":
        counts = np.array(nx.degree_histogram(plain), dtype=float)
        return np.pad(counts, (0, 64 - len(counts))) / counts.sum()
    if name == "clustering":
        counts, _ = np.histogram(list(nx.clustering(plain).values()), bins=100, range=(0, 1))
        return counts / counts.sum()
    laplacian = nx.normalized_laplacian_matrix(plain).toarray()
    values, vectors = np.linalg.eigh(laplacian)
    if name == "spectrum":
        counts, _ = np.histogram(values, bins=200, range=(-1e-5, 2))
        return counts / counts.sum()
    high = max(one(np.arange(0, 2, 0.01)).max() for one in wavelets())
    rows = []
    for one in wavelets():
        matrix = vectors @ np.diag(one(values)) @ vectors.T
        rows.append(np.histogram((matrix**2).sum(1), bins=100, range=(0, high))[0])
    return np.concatenate(rows) / np.concatenate(rows).sum()


def wavelets() -> list:
    """Hammond's filter bank over [0, 2]: a low pass, and one wavelet at eleven scales."""
    middle = CubicHermiteSpline([1, 2], [1, 1], [2, -1])

    def wavelet(x: np.ndarray) -> np.ndarray:
        far = 4 / np.maximum(x, 1) ** 2
        return np.where(x < 1, x**2, np.where(x < 2, middle(np.clip(x, 1, 2)), far))

    peak = wavelet(np.linspace(1, 2, 100_001)).max()
    scales = np.exp(np.linspace(np.log(20), np.log(0.5), 11))
    bands = [lambda x, s=scale: wavelet(s * x) for scale in scales]
    return [lambda x: peak * np.exp(-((x / 0.06) ** 4)), *bands]


def slow_mmd(one: list[Graph], other: list[Graph], name: str) -> float:
    def similarity(x: np.ndarray, y: np.ndarray) -> float:
        distance = np.abs(x - y).sum() / 2
        return float(np.exp(-(distance**2) / (2 * (0.1 if name == "clustering" else 1.0) ** 2)))

    a, b = ([histogram(graph, name) for graph in graphs] for graphs in (one, other))
    within = [np.mean([[similarity(x, y) for x in some] for y in some]) for some in (a, b)]
    return abs(within[0] + within[1] - 2 * np.mean([[similarity(x, y) for x in a] for y in b]))


@pytest.mark.parametrize("name", ["degree", "clustering", "spectrum", "wavelet"])
def test_mmd_is_that_of_the_tables(name: str) -> None:
    assert mmd(TEST, MADE, name, kernel="tv")[name] == pytest.approx(slow_mmd(TEST, MADE, name), abs=1e-6)


def test_the_ratio_is_the_mean_over_descriptors_in_groups() -> None:
    scores = generation_scores(TRAIN, TEST, MADE, group=4)  # the ninth graph is in no group
    floor = {name: round(mmd(TEST, TRAIN, name, kernel="tv")[name], 4) for name in TABLES}
    groups = [
        {name: mmd(TEST, part, name, kernel="tv")[name] for name in TABLES} for part in (MADE[:4], MADE[4:8])
    ]
    ratios = [np.mean([group[name] / floor[name] for name in TABLES if floor[name]]) for group in groups]
    assert scores["mmd_ratio"] == pytest.approx(np.mean(ratios))
    assert scores["mmd_wavelet"] == pytest.approx(np.mean([group["wavelet"] for group in groups]))
    assert scores.intervals["mmd_ratio"][0] <= scores["mmd_ratio"] <= scores.intervals["mmd_ratio"][1]


def test_what_does_not_vary_is_left_out_of_the_ratio() -> None:
    trees = family("tree", nodes=20).graphs(24)
    scores = generation_scores(trees[:8], trees[8:16], trees[16:], is_tree, group=8)
    assert scores["mmd_clustering"] == 0
    assert np.isfinite(scores["mmd_ratio"])


def test_a_graph_counts_once_if_it_is_valid_and_new() -> None:
    path, star, ring = (
        as_graph(make(6)) for make in (nx.path_graph, lambda n: nx.star_graph(n - 1), nx.cycle_graph)
    )
    renamed = as_graph(nx.relabel_nodes(nx.star_graph(5), {0: 5, 5: 0}))
    made = [path, star, renamed, ring]  # known; new; the same again; not a tree
    scores = generation_scores([path], [path, star], made, is_tree, group=4)
    assert scores["valid"] == 0.75
    assert scores["uniqueness"] == 0.75
    assert scores["novelty"] == 0.75
    assert scores["vun"] == 0.25
    assert scores.intervals["vun"][0] < 0.25 < scores.intervals["vun"][1]
    assert generation_scores([path], [path, star], made, [True, False, True, True], group=4)["vun"] == 0.25
    with pytest.raises(GLNError, match="at least 5"):
        generation_scores([path], [path], made, group=5)


def test_planar_graphs_and_trees() -> None:
    apart = nx.disjoint_union(nx.path_graph(3), nx.path_graph(3))
    for make, planar, tree in (
        (nx.complete_graph(4), True, False),
        (nx.complete_graph(5), False, False),
        (nx.complete_bipartite_graph(3, 3), False, False),
        (nx.path_graph(2), True, True),
        (nx.star_graph(5), True, True),
        (apart, False, False),
        (nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(1)), False, False),
        (nx.empty_graph(1), True, True),
    ):
        assert (is_planar(as_graph(make)), is_tree(as_graph(make))) == (planar, tree)


def test_a_block_model_fits_its_own_blocks_and_no_others() -> None:
    right = (
        family("sbm").graphs(30),
        family("sbm", inside=0.6).graphs(30),
        family("sbm", between=0.1).graphs(30),
    )
    passed = [np.mean([is_sbm(graph) for graph in graphs]) for graphs in right]
    assert passed[0] > 0.7
    assert max(passed[1:]) < 0.3
    graph = as_graph(nx.stochastic_block_model([30, 30], [[0.3, 0.01], [0.01, 0.3]], seed=1))
    block = np.repeat([4, 9], 30)
    assert fits_blocks(graph, block)
    assert not fits_blocks(graph, np.zeros(60, dtype=int))
    assert not fits_blocks(graph, np.roll(block, 15))

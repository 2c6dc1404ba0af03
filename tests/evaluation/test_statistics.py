"""Degrees, clustering and spectra against networkx, and the laws they obey."""

import importlib

import networkx as nx
import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.evaluation import orbits
from gln.evaluation.statistics import clustering, degrees, laplacian_spectrum
from gln.graphs import as_graph, as_graphs, make_graph

NETWORKS = [
    nx.gnp_random_graph(30, 0.1, seed=0),
    nx.gnp_random_graph(30, 0.6, seed=1),
    nx.gnp_random_graph(17, 0.3, seed=2),
    nx.barabasi_albert_graph(80, 3, seed=3),
    nx.grid_2d_graph(4, 6),
    nx.connected_caveman_graph(3, 7),
    nx.star_graph(20),
    nx.complete_graph(30),
    nx.empty_graph(5),
    nx.empty_graph(1),
    nx.disjoint_union(nx.complete_graph(4), nx.empty_graph(2)),
]
GRAPHS = as_graphs(NETWORKS)


def test_degrees() -> None:
    found = degrees(GRAPHS)
    assert all(values.dtype == torch.int64 for values in found)
    assert [values.tolist() for values in found] == [[d for _, d in graph.degree] for graph in NETWORKS]


def test_clustering() -> None:
    for values, graph in zip(clustering(GRAPHS), NETWORKS, strict=True):
        assert values.dtype == torch.float64
        np.testing.assert_allclose(values, list(nx.clustering(graph).values()), rtol=0, atol=1e-12)


def test_spectrum() -> None:
    for values, graph in zip(laplacian_spectrum(GRAPHS), NETWORKS, strict=True):
        expected = np.linalg.eigvalsh(nx.normalized_laplacian_matrix(graph).toarray())
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-8)
        assert values.dtype == torch.float64
        assert 0 <= values.min() <= values.max() <= 2


def test_spectrum_counts_components_and_isolated_nodes_as_zeros() -> None:
    graph = NETWORKS[-1]
    zeros = int((laplacian_spectrum([as_graph(graph)])[0] < 1e-9).sum())
    assert zeros == nx.number_connected_components(graph) == 3


def test_spectrum_of_a_graph_too_large_for_a_batch(monkeypatch) -> None:
    batched = laplacian_spectrum(GRAPHS)
    monkeypatch.setattr(importlib.import_module("gln.evaluation.statistics"), "EIGEN_ENTRIES", 1)
    for alone, together in zip(laplacian_spectrum(GRAPHS), batched, strict=True):
        torch.testing.assert_close(alone, together, rtol=0, atol=1e-12)


@pytest.mark.parametrize("measure", [degrees, clustering, laplacian_spectrum])
def test_the_other_graphs_do_not_matter(measure) -> None:
    together = measure(GRAPHS)
    for values, graph in zip(together, GRAPHS, strict=True):
        torch.testing.assert_close(values, measure([graph])[0], rtol=0, atol=1e-12)
    for values, swapped in zip(together, measure(GRAPHS[::-1])[::-1], strict=True):
        torch.testing.assert_close(values, swapped, rtol=0, atol=1e-12)


@pytest.mark.parametrize("measure", [degrees, clustering, laplacian_spectrum])
def test_renumbering_the_nodes(measure) -> None:
    graph = GRAPHS[3]
    new = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    half = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    renumbered = make_graph(edges=new[half].T, num_nodes=graph.num_nodes)
    values = measure([renumbered])[0]
    expected = measure([graph])[0]
    moved = values if measure is laplacian_spectrum else values[new]  # a spectrum belongs to no node
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("measure", [degrees, clustering, laplacian_spectrum])
def test_a_gpu_measures_the_same(measure) -> None:
    for there, here in zip(measure(GRAPHS, "cuda"), measure(GRAPHS), strict=True):
        torch.testing.assert_close(there.cpu(), here, rtol=0, atol=1e-12)


@pytest.mark.parametrize("statistic", [degrees, clustering, laplacian_spectrum, orbits])
def test_any_kind_of_graph_is_taken_and_a_directed_one_refused(statistic) -> None:
    expected = statistic(GRAPHS[:3])
    for others in (NETWORKS[:3], [nx.to_numpy_array(graph) for graph in NETWORKS[:3]]):
        assert all(torch.equal(a, b) for a, b in zip(statistic(iter(others)), expected, strict=True))
    with pytest.raises(GLNError, match=r"graphs\[1\]: .* directed"):
        statistic([nx.path_graph(3), np.triu(np.ones((3, 3)), 1)])
    with pytest.raises(GLNError, match="graphs is empty"):
        statistic([])
    with pytest.raises(GLNError, match="device='abacus'"):
        statistic(GRAPHS[:1], "abacus")

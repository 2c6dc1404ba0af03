"""Orbits against two independent counters, and the laws they obey."""

import importlib
import subprocess
import sys
from itertools import combinations
from math import comb

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from benchmarks.common import in_orca_order, orbit_counter
from gln.errors import GLNError
from gln.evaluation.counting import orbits
from gln.graphs import as_graph, as_graphs, make_graph, to_networkx
from tests.evaluation.slow import ORBITS

GRAPHS = {
    "random": nx.gnp_random_graph(40, 0.15, seed=1),
    "random, half of all edges": nx.gnp_random_graph(30, 0.5, seed=2),
    "almost complete": nx.gnp_random_graph(20, 0.9, seed=3),
    "hubs": nx.barabasi_albert_graph(60, 4, seed=4),
    "grid": nx.grid_2d_graph(5, 7),
    "caveman": nx.connected_caveman_graph(4, 6),
    "star": nx.star_graph(30),
    "complete": nx.complete_graph(12),
    "bipartite": nx.complete_bipartite_graph(5, 8),
    "empty": nx.empty_graph(6),
    "one node": nx.empty_graph(1),
    "disconnected": nx.disjoint_union_all(
        [nx.complete_graph(5), nx.cycle_graph(4), nx.empty_graph(3), nx.path_graph(6)]
    ),
}


def brute_force(graph: nx.Graph) -> np.ndarray:
    """Look at every set of two, three and four nodes."""
    out = np.zeros((len(graph), 15), dtype=np.int64)
    adjacency = nx.to_numpy_array(graph, dtype=int)
    for size in (2, 3, 4):
        for nodes in combinations(range(len(graph)), size):
            degrees = adjacency[np.ix_(nodes, nodes)].sum(axis=1).tolist()
            names = ORBITS.get(tuple(sorted(degrees)), {})
            for node, degree in zip(nodes, degrees, strict=True):
                if names:
                    out[node, names[degree]] += 1
    return out


@st.composite
def small_graphs(draw: st.DrawFn) -> Data:
    n = draw(st.integers(1, 9))
    pairs = list(combinations(range(n), 2))
    kept = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    return make_graph(edges=[pair for pair, keep in zip(pairs, kept, strict=True) if keep], num_nodes=n)


@pytest.mark.parametrize("name", GRAPHS)
def test_equal_to_a_compiled_counter(name) -> None:
    graph = GRAPHS[name]
    assert np.array_equal(orbits([as_graph(graph)])[0], in_orca_order(orbit_counter()(graph)))


@pytest.mark.parametrize("name", [name for name, graph in GRAPHS.items() if len(graph) <= 30])
def test_equal_to_brute_force(name) -> None:
    assert np.array_equal(orbits([as_graph(GRAPHS[name])])[0], brute_force(GRAPHS[name]))


@settings(max_examples=60, deadline=None)
@given(st.lists(small_graphs(), min_size=1, max_size=4))
def test_any_small_graphs(graphs) -> None:
    slow = [brute_force(to_networkx(graph)) for graph in graphs]
    for mine, theirs in zip(orbits(graphs), slow, strict=True):
        assert mine.dtype == torch.int64
        assert np.array_equal(mine, theirs)


def test_the_names_of_the_orbits() -> None:
    paw = make_graph(edges=[(0, 1), (1, 2), (2, 3), (3, 1)], num_nodes=4)
    assert orbits([paw])[0][:, 9:12].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]
    diamond = make_graph(edges=[(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)], num_nodes=4)
    assert orbits([diamond])[0][:, 12:14].tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]


def test_the_other_graphs_do_not_matter() -> None:
    graphs = as_graphs(GRAPHS.values())
    together = orbits(graphs)
    assert all(torch.equal(a, orbits([g])[0]) for a, g in zip(together, graphs, strict=True))
    backwards = orbits(graphs[::-1])[::-1]
    assert all(torch.equal(a, b) for a, b in zip(together, backwards, strict=True))


def test_renumbering_the_nodes_renumbers_the_rows() -> None:
    graph = as_graph(GRAPHS["hubs"])
    new = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    half = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    renumbered = make_graph(edges=new[half].T, num_nodes=graph.num_nodes)
    assert torch.equal(orbits([renumbered])[0][new], orbits([graph])[0])


def test_every_node_of_a_graphlet_is_counted() -> None:
    total = orbits([as_graph(nx.barabasi_albert_graph(400, 5, seed=0))])[0].sum(0).tolist()
    assert total[1] == 2 * total[2]
    assert total[4] == total[5]
    assert total[6] == 3 * total[7]
    assert 2 * total[9] == total[10] == 2 * total[11]
    assert total[12] == total[13]
    assert total[3] % 3 == total[8] % 4 == total[14] % 4 == 0
    assert all(total)


def test_large_counts_are_exact() -> None:
    n = 200
    complete = orbits([as_graph(nx.complete_graph(n))])[0]
    expected = torch.zeros(15, dtype=torch.int64)
    expected[[0, 3, 14]] = torch.tensor([n - 1, comb(n - 1, 2), comb(n - 1, 3)])
    assert torch.equal(complete, expected.expand(n, 15))


def test_a_hub_costs_nothing() -> None:
    leaves = 60_000
    star = make_graph(edges=[(7, i) for i in range(leaves + 1) if i != 7], num_nodes=leaves + 1)
    counts = orbits([star])[0]
    assert counts[7].tolist() == [leaves, 0, comb(leaves, 2), 0, 0, 0, 0, comb(leaves, 3), *[0] * 7]
    assert counts[0].tolist() == [1, leaves - 1, 0, 0, 0, 0, comb(leaves - 1, 2), 0, *[0] * 7]


def test_autocast_does_not_round() -> None:
    graph = as_graph(nx.gnp_random_graph(60, 0.95, seed=0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = orbits([graph])[0]
    assert torch.equal(rounded, orbits([graph])[0])


def test_a_degree_that_could_overflow_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(importlib.import_module("gln.evaluation.counting"), "MAX_DEGREE", 20)
    orbits([make_graph(edges=[(0, i) for i in range(1, 21)], num_nodes=21)])
    with pytest.raises(GLNError, match="A node has 21 neighbours"):
        orbits([make_graph(edges=[(0, i) for i in range(1, 22)], num_nodes=22)])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_counts_the_same() -> None:
    graphs = as_graphs(GRAPHS.values())
    for there, here in zip(orbits(graphs, "cuda"), orbits(graphs), strict=True):
        assert there.is_cuda
        assert torch.equal(there.cpu(), here)


LARGE = """
import re
import numpy as np
from gln.evaluation import clustering, degrees, orbits
from gln.graphs import make_graph

def peak():  # in KiB, of this process alone; ru_maxrss would begin with that of the process that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

rng = np.random.default_rng(0)
hubs = np.stack([rng.integers(0, 10, 40_000), rng.integers(10, 10_000, 40_000)])
pairs = np.unique(np.concatenate([hubs, np.sort(rng.integers(0, 10_000, (2, 60_000)), axis=0)], axis=1), axis=1)
pairs = pairs[:, pairs[0] != pairs[1]]
graph = make_graph(edges=rng.permutation(pairs.T)[:50_000], num_nodes=10_000)
orbits([make_graph(edges=[(0, 1)], num_nodes=2)])  # compiles
before = peak()
counts, _, _ = orbits([graph])[0], clustering([graph]), degrees([graph])
print(before, peak(), graph.num_edges // 2, int(counts[:, 8].sum()) % 4)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_ten_thousand_nodes_with_hubs_fit_into_two_gib() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    before, peak, edges, rest = map(int, done.stdout.split())
    assert (edges, rest) == (50_000, 0)
    assert peak < 2 * 2**20  # KiB, torch itself included
    assert peak - before < 2**18

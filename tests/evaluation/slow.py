"""GraphRNN's evaluation, slow and obvious: pure Python, networkx, and earth movers as linear programmes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import networkx as nx
import numpy as np
from scipy.optimize import linprog

# The orbit of a node with so many neighbours in a connected graph of two to four nodes with these degrees.
ORBITS = {
    (1, 1): {1: 0},
    (1, 1, 2): {1: 1, 2: 2},
    (2, 2, 2): {2: 3},
    (1, 1, 2, 2): {1: 4, 2: 5},
    (1, 1, 1, 3): {1: 6, 3: 7},
    (2, 2, 2, 2): {2: 8},
    (1, 2, 2, 3): {1: 9, 2: 10, 3: 11},
    (2, 2, 3, 3): {2: 12, 3: 13},
    (3, 3, 3, 3): {3: 14},
}


def emd(x: list[float], y: list[float], scaling: float) -> float:
    """The least work to turn one histogram into the other; bins are ``1 / scaling`` apart."""
    sources, targets = ([i for i, mass in enumerate(h) if mass] for h in (x, y))
    cost = [abs(i - j) / scaling for i in sources for j in targets]
    flows = np.arange(len(cost)).reshape(len(sources), len(targets))
    leave = [[float(f in row) for f in range(len(cost))] for row in flows]
    arrive = [[float(f in column) for f in range(len(cost))] for column in flows.T]
    mass = [x[i] for i in sources] + [y[j] for j in targets]
    return linprog(cost, A_eq=leave + arrive, b_eq=mass).fun


def degree(graph: nx.Graph) -> list[float]:
    counts = nx.degree_histogram(graph)
    return [count / len(graph) for count in counts]


def clustering(graph: nx.Graph) -> list[float]:
    counts, _ = np.histogram(list(nx.clustering(graph).values()), bins=100, range=(0.0, 1.0))
    return [count / len(graph) for count in counts]


def orbit(graph: nx.Graph) -> list[float]:
    counts = [0] * 15
    for size in (2, 3, 4):
        for nodes in itertools.combinations(graph, size):
            degrees = [d for _, d in graph.subgraph(nodes).degree()]
            for d in degrees:
                if tuple(sorted(degrees)) in ORBITS:
                    counts[ORBITS[tuple(sorted(degrees))][d]] += 1
    return [count / len(graph) for count in counts]


def spectrum(graph: nx.Graph) -> list[float]:
    values = np.linalg.eigvalsh(nx.normalized_laplacian_matrix(graph).toarray())
    counts, _ = np.histogram(np.clip(values, 0, 2), bins=200, range=(-1e-5, 2))
    return [count / len(graph) for count in counts]


def gaussian(distance: float, sigma: float) -> float:
    return math.exp(-(distance**2) / (2 * sigma**2))


def euclidean(x: list[float], y: list[float]) -> float:
    return math.dist(x, y)


def variation(x: list[float], y: list[float]) -> float:
    return sum(abs(a - b) for a, b in itertools.zip_longest(x, y, fillvalue=0.0)) / 2


Set = list[nx.Graph]
Describe = Callable[[nx.Graph], list[float]]
Kernel = Callable[[list[float], list[float]], float]


def squared(first: Set, second: Set, describe: Describe, kernel: Kernel, unbiased: bool = False) -> float:
    """MMD² over loops of pairs."""
    xs, ys = [describe(g) for g in first], [describe(g) for g in second]

    def within(vs: list[list[float]]) -> float:
        values = [kernel(a, b) for i, a in enumerate(vs) for j, b in enumerate(vs) if i != j or not unbiased]
        return sum(values) / len(values)

    between = sum(kernel(x, y) for x in xs for y in ys) / (len(xs) * len(ys))
    return within(xs) + within(ys) - 2 * between


def graphrnn(first: Set, second: Set) -> dict[str, float]:
    return {
        "degree": squared(first, second, degree, lambda x, y: gaussian(emd(x, y, 1), 1.0)),
        "clustering": squared(first, second, clustering, lambda x, y: gaussian(emd(x, y, 100), 0.1)),
        "orbit": squared(first, second, orbit, lambda x, y: gaussian(euclidean(x, y), 30.0)),
    }

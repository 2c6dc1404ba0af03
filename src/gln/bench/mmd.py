"""``gln.mmd`` against an evaluation in the style of GraphRNN's, in one process on the same graphs."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import networkx as nx
import numpy as np
from scipy.linalg import toeplitz

from gln.bench.peers import in_orca_order, orbit_counter, silence, timed
from gln.errors import GLNError
from gln.evaluation import mmd
from gln.evaluation.statistics import one_thread

REPEATS = 3

Graphs = list[nx.Graph]


def run(graphs: int = 40, nodes: int = 100, seed: int = 0) -> dict[str, Any]:
    """Seconds for the three default MMD² of two sets of networkx graphs, ours and the peer's.

    The peer calls a compiled EMD solver (pyemd) for every pair of histograms, networkx for the clustering
    coefficients and a compiled orbit counter (pyfglt) for every graph. Both must agree to 1e-9.

    Args:
        graphs: number of graphs in each of the two sets.
        nodes: number of nodes of each graph.
        seed: of the graphs: small worlds, with 10 % of the links rewired in one set and 30 % in the other.
    """
    if graphs < 1 or nodes < 8 or seed < 0:
        raise GLNError(f"Got graphs={graphs}, nodes={nodes}, seed={seed}; expected at least 1, 8 and 0.")
    first, second = (
        [nx.watts_strogatz_graph(nodes, 6, share, seed=2 * (seed * graphs + i) + k) for i in range(graphs)]
        for k, share in enumerate((0.1, 0.3))
    )
    emd, count = _emd_solver(), orbit_counter()
    with silence():
        peer, peer_seconds = timed(lambda: _graphrnn_style(first, second, emd, count))
    with one_thread():  # like the peer
        ours, warm_up = timed(lambda: mmd(first, second))
        seconds = [timed(lambda: mmd(first, second))[1] for _ in range(REPEATS)]
    difference = max(abs(ours[name] - peer[name]) for name in peer)
    if difference > 1e-9:
        raise AssertionError(f"gln.mmd and its peer differ by {difference:.3g}: {dict(ours)} against {peer}")
    ours_seconds = median(seconds)
    return {
        "name": "mmd",
        "ours_seconds": ours_seconds,
        "peer_seconds": peer_seconds,
        "ratio": peer_seconds / ours_seconds,
        "settings": {
            "graphs": graphs,
            "nodes": nodes,
            "seed": seed,
            "peer": "pyemd per pair, networkx clustering, pyfglt per graph",
            "ours": f"median of {REPEATS} after a first call of {warm_up:.3f} s",
            "threads": 1,
            "difference": difference,
        },
    }


def _emd_solver() -> Callable[..., float]:
    try:
        from pyemd import emd
    except ImportError as error:
        raise GLNError(
            f"The peer needs {error.name}, which is not installed; pip install 'gln[test]'."
        ) from None
    return emd


def _graphrnn_style(
    first: Graphs, second: Graphs, emd: Callable[..., float], count: Callable
) -> dict[str, float]:
    """MMD² over loops of pairs, as GraphRNN's evaluation computes it."""

    def clustering(graph: nx.Graph) -> np.ndarray:
        return np.histogram(list(nx.clustering(graph).values()), bins=100, range=(0.0, 1.0))[0]

    def orbit(graph: nx.Graph) -> np.ndarray:
        return in_orca_order(count(graph)).sum(axis=0) / len(graph)

    def shares(describe: Callable[..., Any]) -> tuple[list[np.ndarray], ...]:
        counts = [[np.asarray(describe(graph), dtype=float) for graph in part] for part in (first, second)]
        width = max(len(h) for part in counts for h in part)
        return tuple([np.pad(h, (0, width - len(h))) / h.sum() for h in part] for part in counts)

    def emd_kernel(width: int, sigma: float, scaling: float) -> Callable[..., float]:
        ground = toeplitz(np.arange(width, dtype=float)) / scaling
        return lambda x, y: np.exp(-(emd(x, y, ground) ** 2) / (2 * sigma**2))

    def rbf_kernel(x: np.ndarray, y: np.ndarray) -> float:
        return np.exp(-(np.linalg.norm(x - y) ** 2) / (2 * 30.0**2))

    def mean(xs: list[np.ndarray], ys: list[np.ndarray], kernel: Callable[..., float]) -> float:
        return sum(kernel(x, y) for x in xs for y in ys) / (len(xs) * len(ys))

    def squared(sets: tuple[list[np.ndarray], ...], kernel: Callable[..., float]) -> float:
        xs, ys = sets
        return mean(xs, xs, kernel) + mean(ys, ys, kernel) - 2 * mean(xs, ys, kernel)

    degree = shares(nx.degree_histogram)
    return {
        "degree": squared(degree, emd_kernel(len(degree[0][0]), 1.0, 1.0)),
        "clustering": squared(shares(clustering), emd_kernel(100, 0.1, 100.0)),
        "orbit": squared(tuple([orbit(graph) for graph in part] for part in (first, second)), rbf_kernel),
    }

"""Our orbit counts against a compiled counter called per graph, in one process on the same graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from benchmarks.common import in_orca_order, orbit_counter, side_by_side, silence, timed
from gln.errors import GLNError
from gln.evaluation.counting import orbits
from gln.families import family
from gln.graphs import to_scipy
from gln.graphs.convert import CheckedGraphs

REPEATS = 7


def run(graphs: int = 100, nodes: int = 400, seed: int = 0) -> dict[str, Any]:
    """Seconds for the 15 orbits of every node of every graph, ours and the peer's.

    Both take turns, and the best turn of each counts, as disturbances only ever add time. Ours starts from checked
    graphs, as an MMD does: the check that :func:`gln.evaluation.orbits` does first is not timed. The peer (pyfglt, per
    graph) starts from adjacency matrices, which are made beforehand and not timed either.

    Args:
        graphs: number of surfaces.
        nodes: number of nodes of each, a square number.
        seed: of the surfaces.
    """
    if graphs < 1:
        raise GLNError(f"Got graphs={graphs}; expected at least 1.")
    count = orbit_counter()
    surfaces = CheckedGraphs(family("surfaces", points=nodes).graphs(graphs, seed=seed))
    matrices = [sp.csc_matrix(to_scipy(graph), dtype=float) for graph in surfaces]

    ours_turns, peer_turns = [], []
    for _ in range(REPEATS):
        ours, seconds = timed(lambda: orbits(surfaces))
        ours_turns.append(seconds)
        with silence():
            theirs, seconds = timed(lambda: [count(matrix) for matrix in matrices])
        peer_turns.append(seconds)
    if not all(
        np.array_equal(one.numpy(), in_orca_order(two)) for one, two in zip(ours, theirs, strict=True)
    ):
        raise AssertionError("gln's orbits and its peer's differ.")
    settings = {
        "graphs": graphs,
        "nodes": nodes,
        "seed": seed,
        "peer": "pyfglt per graph, adjacency matrices ready",
        "ours": f"best of {REPEATS} turns each",
        "threads": torch.get_num_threads(),
    }
    return side_by_side("orbits", min(ours_turns), min(peer_turns), settings)

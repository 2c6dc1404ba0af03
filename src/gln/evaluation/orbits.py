"""The 15 node orbits of graphlets with two to four nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.counting import Blocks, Device, count, measure

MAX_DEGREE = 2**21 - 1  # every sum below is at most (largest degree)³, which then fits into int64

# SPANS[a][b]: in how many spanning subgraphs of a graphlet its node of orbit b has orbit a. A K4, for example, holds
# three diamonds that have a given node off their chord: SPANS[12] = {14: 3}.
SPANS = {
    13: {14: 3},
    12: {14: 3},
    11: {13: 2, 14: 3},
    10: {12: 2, 13: 2, 14: 6},
    9: {12: 2, 14: 3},
    8: {12: 1, 13: 1, 14: 3},
    7: {11: 1, 13: 1, 14: 1},
    6: {9: 1, 10: 1, 12: 2, 13: 1, 14: 3},
    5: {8: 2, 10: 1, 11: 2, 12: 2, 13: 4, 14: 6},
    4: {8: 2, 9: 2, 10: 1, 12: 4, 13: 2, 14: 6},
    2: {3: 1},
    1: {3: 2},
}


def orbits(graphs: Iterable[Any], device: Device = None) -> list[Tensor]:
    """How often each node takes each orbit in an induced subgraph: int64 ``[n, 15]`` per graph, exact.

    Orbits are numbered as in ORCA:

    ======  =======================  ======  ======================  ======  ================================
    0       edge                     4, 5    path of 4: end, inner   9       paw: end of the tail
    1, 2    path of 3: end, middle   6, 7    claw: leaf, centre      10, 11  paw: triangle, away from / at tail
    3       triangle                 8       4-cycle                 12, 13  diamond: off, on the chord
    ..      ..                       ..      ..                      14      K4
    ======  =======================  ======  ======================  ======  ================================

    Args:
        graphs: graphs of any kind and size (see :func:`gln.graphs.as_graphs`), with no degree above 2 million.
        device: where the result is, by default where the graphs are.
    """
    return measure(graphs, _orbits, device)


def _orbits(blocks: Blocks) -> Tensor:
    """Orbits ``[n, 15]`` of the joined graphs.

    First, count subgraphs whether induced or not. With d the degree of the node v, t the triangles at v or on its
    edge vu, and Σ over its neighbours u:

    ===  ==========================  ===  ====================  ===  ========================
    0    d                           5    (1) (d − 1) − 2t      10   Σ t(vu) (d(u) − 2)
    1    Σ d(u) − 1                  6    Σ C(d(u) − 1, 2)      11   t (d − 2)
    2    C(d, 2)                     7    C(d, 3)               12   diamonds, searched for
    3    t = ½ Σ t(vu)               8    4-cycles, searched    13   Σ C(t(vu), 2)
    4    Σ (1)(u) − d (d − 1) − 2t   9    Σ t(u) − 2t           14   K4, searched for
    ===  ==========================  ===  ====================  ===  ========================

    Then subtract those that lie in a graphlet with more edges, from the densest graphlet down.
    """
    degree = blocks.degrees()
    if (largest := int(degree.max())) > MAX_DEGREE:
        raise GLNError(
            f"A node has {largest} neighbours; orbits are counted up to {MAX_DEGREE}, so remove such hubs."
        )
    on_edge, diamonds, cycles, cliques = count(blocks)
    triangles = blocks.sum_edges(on_edge) // 2
    ends = blocks.sum_neighbours(degree - 1)
    pairs = degree * (degree - 1)
    rows = torch.stack(
        [
            degree,
            ends,
            pairs // 2,
            triangles,
            blocks.sum_neighbours(ends) - pairs - 2 * triangles,
            ends * (degree - 1) - 2 * triangles,
            blocks.sum_neighbours((degree - 1) * (degree - 2) // 2),
            pairs * (degree - 2) // 6,
            cycles,
            blocks.sum_neighbours(triangles) - 2 * triangles,
            blocks.sum_neighbours(degree - 2, on_edge),
            triangles * (degree - 2),
            diamonds,
            blocks.sum_edges(on_edge * (on_edge - 1) // 2),
            cliques,
        ]
    )  # [15, n]
    for orbit, denser in SPANS.items():
        for other, times in denser.items():
            rows[orbit].sub_(rows[other], alpha=times)
    return rows.T

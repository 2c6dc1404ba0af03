"""The 15 node orbits of graphlets with two to four nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.evaluation.counting import Blocks, Route, count, measure

MAX_DEGREE = 2**21 - 1  # no sum below exceeds (largest degree)³, which then fits into int64


def orbits(
    graphs: Sequence[Data], device: torch.device | str | None = None, *, route: Route | None = None
) -> list[Tensor]:
    """How often each node touches each orbit of an induced subgraph: int64 ``[n, 15]`` per graph, exact.

    Orbits are numbered as ORCA does:

    ======  ==================  =====  ==================  ======  ===============================
    0       edge                4, 5   path of 4: end,     9–11    paw: end of the tail, triangle
    1, 2    path of 3: end,            inner node                  without tail, with tail
            middle              6, 7   claw: leaf, centre  12, 13  diamond: off, on the chord
    3       triangle            8      4-cycle             14      K4
    ======  ==================  =====  ==================  ======  ===============================

    Args:
        graphs: checked graphs of any sizes (see :func:`gln.graphs.as_graphs`).
        device: where to count, by default where the graphs are; the answer is left there.
        route: force one way of counting in place of the rule in ``counting.route``; the answer is the same.
    """
    return measure(graphs, _orbits, device, route)


def _orbits(blocks: Blocks, route: Route) -> Tensor:
    """Orbits ``[n, 15]`` of the joined graphs.

    First the subgraphs ``s`` that need not be induced. With d the degree, t the triangles on an edge vu or at
    a node, and Σ over the neighbours u of v:

    ====  =======================  ====  =====================  ====  ======================
    s1    Σ d(u) − 1               s6    Σ C(d(u) − 1, 2)       s11   t (d − 2)
    s2    C(d, 2)                  s7    C(d, 3)                s12   diamonds, searched
    s3    t = ½ Σ t(vu)            s8    4-cycles, searched     s13   Σ C(t(vu), 2)
    s4    Σ s1(u) − d(d−1) − 2t    s9    Σ t(u) − 2t            s14   K4, searched
    s5    s1 (d − 1) − 2t          s10   Σ t(vu) (d(u) − 2)
    ====  =======================  ====  =====================  ====  ======================

    Then, densest first, what a graphlet with more edges contributes is taken off: a K4 node is off the chord
    of 3 diamonds, and so on. The coefficients count the ways in which the sparser graphlet spans the denser one.
    """
    degree = blocks.degrees()
    if len(degree) and int(degree.max()) > MAX_DEGREE:
        raise GLNError(f"A node has {int(degree.max())} neighbours; orbits are counted up to degree {MAX_DEGREE}.")
    counts = count(blocks, route)
    on_edge = counts.triangles
    t = blocks.sum_edges(on_edge) // 2
    ends = blocks.sum_neighbours(degree - 1)  # s1

    o14 = counts.cliques
    o13 = blocks.sum_edges(on_edge * (on_edge - 1) // 2) - 3 * o14
    o12 = counts.diamonds - 3 * o14
    o11 = t * (degree - 2) - 2 * o13 - 3 * o14
    o10 = blocks.sum_neighbours(degree - 2, on_edge) - 2 * o12 - 2 * o13 - 6 * o14
    o9 = blocks.sum_neighbours(t) - 2 * t - 2 * o12 - 3 * o14
    o8 = counts.cycles - o12 - o13 - 3 * o14
    o7 = degree * (degree - 1) * (degree - 2) // 6 - o11 - o13 - o14
    o6 = blocks.sum_neighbours((degree - 1) * (degree - 2) // 2) - o9 - o10 - 2 * o12 - o13 - 3 * o14
    o5 = ends * (degree - 1) - 2 * t - 2 * o8 - o10 - 2 * o11 - 2 * o12 - 4 * o13 - 6 * o14
    o4 = blocks.sum_neighbours(ends) - degree * (degree - 1) - 2 * t
    o4 = o4 - 2 * o8 - 2 * o9 - o10 - 4 * o12 - 2 * o13 - 6 * o14
    o2 = degree * (degree - 1) // 2 - t
    return torch.stack([degree, ends - 2 * t, o2, t, o4, o5, o6, o7, o8, o9, o10, o11, o12, o13, o14], dim=1)

"""How the MMD's cost grows with the number of graphs: ours and the peer's, and ours alone for many."""

from __future__ import annotations

from typing import Any

from benchmarks.common import seconds_of
from benchmarks.mmd import run as beside_peer
from benchmarks.mmd import small_worlds
from gln.evaluation import mmd


def run(
    sizes: tuple[int, ...] = (20, 40, 80), alone: int = 500, nodes: int = 100, seed: int = 0
) -> dict[str, Any]:
    """Seconds for two sets of graphs, of each of the ``sizes`` with the peer, and of ``alone`` graphs without it."""
    rows = [beside_peer(graphs, nodes, seed) for graphs in sizes]
    many = small_worlds(alone, nodes, seed)
    settings = {"nodes": nodes, "seed": seed, "alone": alone, "alone_seconds": seconds_of(lambda: mmd(*many))}
    return {"name": "mmd-scaling", "rows": rows, "settings": settings}

"""Seconds to draw the paper's amounts of graphs, beside the time allowed."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.common import seconds_of
from gln.families import parse_family

# family, graphs, seconds allowed on two cores
CASES = [
    ("figures", 3000, 10),
    ("surfaces:points=400", 1200, 10),
    ("delaunay", 50_000, 60),
    ("community", 300, None),
    ("community:communities=4", 500, None),
]


def run(workers: int = 1, seed: int = 0) -> dict[str, Any]:
    """Draw all families, with so many processes."""
    rows = []
    for spec, count, allowed in CASES:
        draw = partial(parse_family(spec).sample, count, seed, workers=workers)
        rows.append({"family": spec, "graphs": count, "seconds": seconds_of(draw), "allowed": allowed})
    return {"name": "families", "rows": rows, "settings": {"workers": workers, "seed": seed}}

"""What ``make demo`` runs: a picture of every family."""

from __future__ import annotations

import time
from pathlib import Path

from gln.families import parse_family
from gln.viewing import save_gallery

GALLERY = [
    "community",
    "community:communities=4",
    "surfaces",
    "surfaces:points=400",
    "figures",
    "figures:objects=3",
    "delaunay",
]


def main(folder: Path = Path("demo")) -> None:
    """Draw six graphs of every family into ``folder``."""
    for spec in GALLERY:
        start = time.perf_counter()
        family = parse_family(spec)
        graphs = family.sample(6, seed=0)
        captions = [family.caption(graph) for graph in graphs]
        name = spec.replace(":", "-").replace("=", "-")
        path = save_gallery(graphs, folder / f"{name}.png", str(family), captions)
        print(f"{spec:<28}{time.perf_counter() - start:4.1f} s   {path}")


if __name__ == "__main__":
    main()

"""The pictures of the documentation: python recipes/pictures.py"""

from __future__ import annotations

from pathlib import Path

import gln

IMAGES = Path("docs/images")


def main() -> None:
    surfaces = gln.family("surfaces", points=400)
    graphs = surfaces.sample(6, seed=0)
    gln.save_gallery(graphs, IMAGES / "surfaces.png", captions=[surfaces.caption(graph) for graph in graphs])
    truths = [gln.family("delaunay", points=n).sample(1, seed=11)[0] for n in (50, 200, 1000)]
    gln.save_gallery(gln.predict(gln.load("delaunay"), truths), IMAGES / "delaunay.png", truths=truths)


if __name__ == "__main__":
    main()

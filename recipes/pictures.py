"""Draw the pictures of the documentation: python recipes/pictures.py"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageColor

import gln
import pictures_how
from gln.files import write_atomically
from gln.viewing.style import EDGE, EXTRA, INK, MISSING

IMAGES = Path("docs/images")


def main() -> None:
    front()
    pictures_how.draw_all()


def front() -> None:
    """Draw the pictures of the front page: surfaces, and triangulations predicted from points."""
    surfaces = gln.family("surfaces", points=400)
    graphs = surfaces.sample(6, seed=0)
    captions = [surfaces.caption(graph) for graph in graphs]
    shrink(gln.save_gallery(graphs, IMAGES / "surfaces.png", captions=captions))
    truths = [gln.family("delaunay", points=n).sample(1, seed=11)[0] for n in (50, 200, 1000)]
    predicted = gln.predict(gln.load("delaunay"), truths)
    shrink(gln.save_gallery(predicted, IMAGES / "delaunay.png", truths=truths))


def shrink(path: Path) -> None:
    """Reduce a picture to a palette, a quarter of its size; colours with a meaning are kept exactly."""
    buffer = io.BytesIO()
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    most = picture.quantize(64).getpalette() or []
    kept = [part for colour in (EDGE, MISSING, EXTRA, INK) for part in ImageColor.getrgb(colour)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([255 if part > 248 else part for part in most[: 3 * 64]] + kept)  # white is white
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    write_atomically(path, buffer.getvalue())


if __name__ == "__main__":
    main()

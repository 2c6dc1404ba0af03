"""PNG and JPEG images: every pixel is a node, as in the family ``figures``; a label image gives the true regions."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gln.errors import GLNError, about, needed
from gln.graphs.record import Graph
from gln.graphs.regions import is_image, region_edges
from gln.io.items import Item, ReadOptions, Source, decoding, load
from gln.later import torch

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 512  # pixels along a side, unless image_size is given
DECODED = 50_000_000  # pixels of the largest image that is decoded, even if only to shrink it
SCATTER = 10_368_889  # odd, so that numbers below 2²⁴ stay distinct; near the golden section, so that neighbours differ


def read_image(source: Source) -> Iterator[Item]:
    """Read one image.

    ``pos [n, 2]`` is a pixel's column and row from the top left corner, ``x [n, 3]`` its RGB colour in [0, 1]. With a
    label image, pixels that share a side and a label are joined, and the labels are kept as ``region [n]``.
    Transparency is ignored.
    """
    image = _open(load(source.path), ("PNG", "JPEG"))
    full, size = image.size, _size(image.size, source.options)
    colours = _colours(image, size)  # [rows, columns, 3]
    row, column = np.divmod(np.arange(size[0] * size[1], dtype=np.float32), np.float32(size[0]))
    pos = np.stack([column, row], axis=1)  # [n, 2]
    where, edges, region = labels_of(source.path, source.options), None, None
    if where is not None:
        with about(f"label image {where}"):
            region = _labels(load(where), full, size)
        source.say(f"regions from {source.options.labels or source.beside(where)}")
        edges = region_edges(torch.from_numpy(pos), region).numpy().T
    yield source.item(pos=pos, x=colours.reshape(-1, 3), edges=edges, region=region)


def labels_of(path: Path, options: ReadOptions) -> Path | None:
    """The label image of an image: the one named, or NAME.labels.png beside it."""
    given = options.labels
    if given is None:
        beside = path.with_name(f"{path.stem}.labels.png")
        return beside if beside.is_file() else None
    if given.is_dir():
        return given / f"{path.stem}.png"
    return Path(str(given).replace("*", path.stem))


def _open(data: bytes, formats: tuple[str, ...]) -> Image:
    """Open an image, reading only its header."""
    pil = needed("PIL.Image", "images", "image")
    kind = f"{' or '.join(formats)} image"
    with decoding(kind):
        try:
            image: Image = pil.open(io.BytesIO(data), formats=formats)
        except pil.UnidentifiedImageError:  # its own message names an object in memory
            raise GLNError(f"this is not a readable {kind}.") from None
    if image.width * image.height > DECODED:
        raise GLNError(
            f"the image has {image.width} × {image.height} pixels; at most {DECODED:,} are decoded, so shrink it first."
        )
    return image


def _size(full: tuple[int, int], options: ReadOptions) -> tuple[int, int]:
    """Columns and rows after shrinking."""
    wanted, longest = options.image_size, max(full)
    if wanted is None and longest > LARGEST:
        raise GLNError(
            f"the image has {full[0]} × {full[1]} pixels, and each would be a node; shrink it with --image-size "
            "(image_size=), for example 64 for 64 pixels along the longer side."
        )
    if wanted is None or longest <= wanted:
        return full
    return max(1, round(full[0] * wanted / longest)), max(1, round(full[1] * wanted / longest))


def _colours(image: Image, size: tuple[int, int]) -> np.ndarray:
    """float32 ``[rows, columns, 3]`` in [0, 1]; a pixel of a shrunk image is the mean of those it covers."""
    from PIL.Image import Resampling

    with decoding("image"):
        if image.mode.startswith("I"):  # 16 bits of grey, which a conversion to RGB would clip
            grey = image.convert("I").convert("F").resize(size, Resampling.BOX)
            return np.repeat(np.asarray(grey, dtype=np.float32)[:, :, None] / 65535, 3, axis=2).clip(0, 1)
        colours = image.convert("RGB").resize(size, Resampling.BOX)
        return np.asarray(colours, dtype=np.float32) / 255


def _labels(data: bytes, full: tuple[int, int], size: tuple[int, int]) -> torch.Tensor:
    """The regions ``[n]`` of the pixels row by row, numbered from 0 in the order of their labels."""
    from PIL.Image import Resampling

    image = _open(data, ("PNG",))  # a JPEG would blur the labels
    if image.size != full:
        raise GLNError(
            f"it has {image.width} × {image.height} pixels, the image {full[0]} × {full[1]}; expected the same size."
        )
    with decoding("PNG image"):
        pixels = np.asarray(image.resize(size, Resampling.NEAREST))
    flat = pixels.reshape(size[0] * size[1], -1)
    region = np.unique(flat, axis=0, return_inverse=True)[1]
    return torch.from_numpy(region.reshape(-1).astype(np.int64))


def to_regions(item: Item, answer: Graph) -> bytes:
    """An image with a colour for every cluster, which ``--labels`` reads back."""
    if not is_image(item.graph):
        raise GLNError(f"{item.name} is not an image, so its clusters make no picture; write a .csv.")
    from PIL import Image  # with which the image was read

    column, row = item.graph.pos.numpy(force=True).astype(int).T
    number = answer["cluster"].numpy(force=True) * SCATTER % 2**24  # another colour for each
    pixels = np.zeros((row.max() + 1, column.max() + 1, 3), dtype=np.uint8)
    pixels[row, column] = number[:, None] >> (16, 8, 0)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()

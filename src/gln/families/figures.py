"""Figures: small images whose pixels are joined within each region, so that the graph is a segmentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from gln.errors import GLNError
from gln.families.base import Family, register
from gln.graphs.check import check_real
from gln.graphs.record import Graph
from gln.graphs.regions import pixel_steps, region_edges
from gln.later import torch

POOL = 32  # candidate colours per colour needed
FAR = 50  # released: the second point of a line or rectangle has coordinates from −50 to 49
# Released: the colours of the two classes, from low to below high in each channel of 0 to 255, drawn for every pixel.
BLUE, RED = ((0, 0, 90), (30, 30, 254)), ((150, 0, 0), (254, 30, 10))

Images = Literal["ours", "released"]


@register("figures")
@dataclass(frozen=True, kw_only=True)
class Figures(Family):
    """Noisy images of circles, rectangles and divided planes; neighbouring pixels of one region are joined.

    Every object is, with equal probability, a disc, a rectangle, or everything on one side of a line across the
    image (with uniform direction and place; the paper names the shapes, the probabilities and lines are ours).
    Discs and rectangles lie within the image and never cover it. Later objects are drawn over earlier ones
    and may split or hide them; at least two regions are always visible.

    Nodes carry ``pos [n, 2]``, the pixel's column and row counted from the top left corner; ``x [n, 3]``, its
    noisy RGB colour; and ``region [n]`` (int64), 0 for the background and ``k`` for the ``k``-th object. The
    true segments are the connected components of the graph: a region cut in two by another counts as two.

    ``"ordered"`` lists the pixels row by row; ``"set"`` shuffles the pixels of the same images.

    ``images="released"`` draws as the authors' code does: a line through two points, a disc about a pixel or a
    rectangle between two points, with equal probability; the second point lies anywhere from −50 to 49, so the line
    often only clips the image, and it may miss it or the rectangle cover it, which leaves one region. A region is blue
    or red, in shades drawn for every pixel: ``x`` holds whole numbers from 0 to 253, ``pos`` the row, then the column.

    Args:
        images: ``"ours"`` as described first, or ``"released"``, which takes ``side`` and ``neighbours`` only.
        side: pixels along each side of the image, at least 4 (paper: 20).
        objects: number of objects in an image (paper: 1; other numbers are ours).
        neighbours: 4 or 8, which pixels count as neighbours (released: 4).
        smallest: smallest diameter of a disc and side of a rectangle; the largest is ``side`` (paper: 1).
        contrast: least distance between the colours of two regions, with channels from 0 to 1 (ours; the paper
            allows any colours, the released code uses two disjoint ranges).
        noise: standard deviation of the white noise on every channel; the noisy colours are then clipped to
            [0, 1], as in an image file (paper: white noise; the amount is ours).
    """

    images: Images = "ours"
    side: int = 20
    objects: int = 1
    neighbours: int = 4
    smallest: int = 1
    contrast: float = 0.5
    noise: float = 0.1

    orders = ("set", "ordered")
    paper_count = 3000
    choices: ClassVar = {"images": get_args(Images)}
    # On fewer than 4 × 4 pixels a disc is a square and could cover the image.
    least: ClassVar = {"side": 4, "objects": 1, "smallest": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        ours = ("objects", "smallest", "contrast", "noise")
        changed = [name for name in ours if getattr(self, name) != getattr(Figures, name)]
        if changed and self.images == "released":
            raise GLNError(
                f"figures got images=released and {changed[0]}; leave it out, it is for images=ours."
            )
        self._keep_whole("neighbours", 4, "4 or 8")
        pixel_steps(self.neighbours)
        if self.smallest >= self.side:
            raise GLNError(f"figures got smallest={self.smallest}; expected less than side={self.side}.")
        contrast = check_real("figures", "contrast", self.contrast, 0, 1, above=True)
        object.__setattr__(self, "contrast", contrast)
        object.__setattr__(self, "noise", check_real("figures", "noise", self.noise))
        # Colours at least c apart are spheres of diameter c within a cube of side 1 + c. Placed at random, and
        # again when they jam, they soon fill a fifth of it; 0.38 is that fifth over π/6.
        if (self.objects + 1) * contrast**3 > 0.38 * (1 + contrast) ** 3:
            most = int(0.38 * (1 + 1 / contrast) ** 3) - 1
            raise GLNError(
                f"figures got objects={self.objects}, but at contrast={contrast} colours can be found "
                f"for at most {most}; lower objects or contrast."
            )

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        """Draw ``count`` graphs of ``n = side²`` nodes."""
        n = self.side**2
        image, region = self._released(rng, count) if self.images == "released" else self._ours(rng, count)
        row, col = divmod(np.arange(n, dtype=np.float32), self.side)
        pos = np.stack([row, col] if self.images == "released" else [col, row], axis=1)  # [n, 2]

        order = self._node_orders(rng, count, n)  # [B, n]
        graphs = []
        for rgb, label, nodes in zip(image, region, order, strict=True):
            graph = Graph(x=torch.from_numpy(rgb[nodes]), pos=torch.from_numpy(pos[nodes]), num_nodes=n)
            graph.region = torch.from_numpy(label[nodes])
            graph.edge_index = region_edges(graph.pos, graph.region, self.neighbours)
            graphs.append(graph)
        return graphs

    def _ours(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Images float32 ``[B, n, 3]`` and the region of every pixel ``[B, n]``."""
        n = self.side**2
        region = np.zeros((count, n), dtype=np.int64)
        for number in range(1, self.objects + 1):
            region[self._figure(rng, count).reshape(count, n)] = number
        colours = self._colours(rng, count)  # [B, 1 + objects, 3]
        image = np.take_along_axis(colours, region[:, :, None], axis=1)  # [B, n, 3]
        image += self.noise * rng.standard_normal(image.shape)
        return image.clip(0, 1).astype(np.float32), region

    def _released(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`_ours`, by the rules of the authors' code."""
        side, shape = self.side, (count, 1, 1)
        row, col = np.ogrid[:side, :side]
        y, x = rng.integers(0, side - 1, shape), rng.integers(0, side - 1, shape)
        far_y, far_x = rng.integers(-FAR, FAR, shape), rng.integers(-FAR, FAR, shape)
        # The thousandth, which keeps an upright line from a division by zero, is the released code's.
        line = col >= (far_x - x) / (far_y - y + 0.001) * (row - y) + x
        disc = (row - y) ** 2 + (col - x) ** 2 <= rng.integers(0, side // 2, shape) ** 2
        low, high = np.minimum(y, far_y), np.maximum(y, far_y)
        left, right = np.minimum(x, far_x), np.maximum(x, far_x)
        rectangle = (row >= low) & (row <= high) & (col >= left) & (col <= right)
        kind = rng.integers(3, size=shape)
        figure = np.choose(kind, [line, disc, rectangle]).reshape(count, side**2)
        # A figure is blue, except that every other rectangle is red.
        red = figure == ((kind == 2) & (rng.random(shape) < 0.5)).reshape(count, 1)
        colours = [rng.integers(*bounds, (*red.shape, 3)) for bounds in (BLUE, RED)]
        return np.where(red[:, :, None], colours[1], colours[0]).astype(np.float32), figure.astype(np.int64)

    def _figure(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """The pixels of one figure per image: bool ``[B, side, side]``, neither none nor all of them."""
        side, shape = self.side, (count, 1, 1)
        row, col = np.ogrid[:side, :side]  # [side, 1], [1, side]

        across = rng.integers(self.smallest, side + 1, shape)
        top, left = rng.integers(0, side - across + 1), rng.integers(0, side - across + 1)
        # In half pixels, so that the centre of every disc is a whole number.
        disc = (2 * (row - top) - across + 1) ** 2 + (2 * (col - left) - across + 1) ** 2 <= across**2

        lengths = side + 1 - self.smallest
        # All pairs of lengths but the last, which is the whole image.
        sides = divmod(rng.integers(lengths**2 - 1, size=shape), lengths)
        height, width = (part + self.smallest for part in sides)
        top, left = rng.integers(0, side - height + 1), rng.integers(0, side - width + 1)
        rectangle = (row >= top) & (row < top + height) & (col >= left) & (col < left + width)

        angle = 2 * np.pi * rng.random(shape)
        along = np.cos(angle) * col + np.sin(angle) * row  # [B, side, side]
        # From exactly 0 to exactly 1, so that every cut leaves a pixel on both sides.
        along -= along.min(axis=(1, 2), keepdims=True)
        along /= along.max(axis=(1, 2), keepdims=True)
        half = along > rng.random(shape)

        return np.choose(rng.integers(3, size=shape), [disc, rectangle, half])

    def _colours(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Uniform RGB colours, those of one image at least ``contrast`` apart: ``[B, R, 3]``."""
        regions = self.objects + 1
        colours = np.empty((count, regions, 3))
        todo = np.arange(count)
        while len(todo):
            pool = rng.random((len(todo), POOL * regions, 3))  # [b, P, 3]
            usable = np.ones(pool.shape[:2], dtype=bool)
            found = np.ones(len(todo), dtype=bool)
            for region in range(regions):
                found &= usable.any(axis=1)
                first = usable.argmax(axis=1)[:, None, None]
                colour = np.take_along_axis(pool, first, axis=1)  # [b, 1, 3]
                colours[todo, region] = colour[:, 0]
                usable &= ((pool - colour) ** 2).sum(axis=2) >= self.contrast**2
            todo = todo[~found]
        return colours

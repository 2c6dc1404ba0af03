"""The colours of every picture and page, chosen for colour-blind readers too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D

INK = "#1f2933"
EDGE = "#2b5f8a"  # edges of a single graph, and edges that are predicted and true
MISSING, EXTRA = "#D55E00", "#CC79A7"  # true edges not predicted, predicted edges not true
# Okabe and Ito's palette.
GROUPS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442"]
DEPTH = ["#c3d9e8", "#4f8fbf", "#0b3c5d"]  # far to near, and unlikely to likely
# By type of edge, the same palette without the colours of wrong edges; dashes, in widths of a line, tell types apart
# without colours.
TYPES = ["#0072B2", "#009E73", "#E69F00", "#56B4E9", INK, "#B79F00"]
DARK_TYPES = ["#5DB3EE", "#3DDBA8", "#F5B83D", "#A9D8FB", "#e4e9ee", "#F0E442"]
TYPE_DASHES: list[tuple[float, ...]] = [(), (4, 1.6), (1.2, 1.2), (5, 1.4, 1.2, 1.4)]
MARKERS = "os^Dvp"  # by type of node

#: The colours of a page by name; on a dark background the same hues are lighter.
LIGHT_PAGE = {
    "ink": INK,
    "right": EDGE,
    "missing": MISSING,
    "extra": EXTRA,
    "unlikely": DEPTH[0],
    "likely": DEPTH[2],
    "types": " ".join(TYPES),
}
DARK_PAGE = {
    "ink": "#e4e9ee",
    "right": "#6db3e8",
    "missing": "#ff8a3d",
    "extra": "#eba3cb",
    "unlikely": "#24435c",
    "likely": "#a9d8fb",
    "types": " ".join(DARK_TYPES),
}


DASHES = (1.4, 0.8)  # of a missing edge, in units of its width


@dataclass(frozen=True)
class Line:
    """One of the lines that make up an edge; ``width`` is in points at thickness 1."""

    colour: str
    width: float
    dashed: bool = False

    @property
    def style(self) -> Any:
        """The line style, as matplotlib takes it."""
        return (0, DASHES) if self.dashed else "solid"


Look = dict[str, tuple[Line, ...]]

#: By kind of edge, the lowest and widest line first. White separates wrong edges from those below; extra ones have a
#: dark rim, because some readers cannot tell their colour from that of right ones.
PLAIN: Look = {
    "predicted and true": (Line(EDGE, 1.2),),
    "missing": (Line("white", 3.4), Line(MISSING, 1.8, dashed=True)),
    "extra": (Line("white", 3.8), Line(INK, 2.8), Line(EXTRA, 1.8)),
}
#: On an image of any colour: a dark and a light line below, so that one of them stands out.
ON_IMAGE: Look = {
    "predicted and true": (Line(INK, 1.7), Line("white", 0.8)),
    "missing": (Line(INK, 4.4), Line("white", 3.4), Line(MISSING, 2.2, dashed=True)),
    "extra": (Line(INK, 4.4), Line("white", 3.4), Line(EXTRA, 2.2)),
}
RIGHT, *WRONG = PLAIN
OTHER_TYPE = "another type"  # predicted and true, but of another type: drawn as predicted, with a dashed rim
PLAIN[OTHER_TYPE] = (Line("white", 4.6), Line(INK, 4.0, dashed=True), Line("white", 2.4))
ON_IMAGE[OTHER_TYPE] = PLAIN[OTHER_TYPE]


def draw_kind(
    ax: Axes, segments: np.ndarray, kind: str, *, image: bool, thick: float, zorder: float = 1.0
) -> None:
    """Draw the edges of one kind, ``[m, 2, 2]``; each line is a collection with the kind as its label.

    The coloured lines of all kinds lie at ``zorder``, the lines below them lower.
    """
    if not len(segments):
        return
    for depth, line in enumerate(reversed((ON_IMAGE if image else PLAIN)[kind])):
        lines = LineCollection(
            list(segments),
            colors=line.colour,
            linewidths=line.width * thick,
            linestyles=[line.style],
            capstyle="butt" if line.dashed else "round",
            zorder=zorder - depth / 10,
            label=kind,
        )
        ax.add_collection(lines)


def legend_entry(kind: str, image: bool, thick: float) -> tuple[Line2D, ...]:
    """The look of a kind of edge, as matplotlib's legends take it."""
    return tuple(
        Line2D([], [], color=line.colour, linewidth=line.width * thick, linestyle=line.style)
        for line in (ON_IMAGE if image else PLAIN)[kind]
    )


def type_style(number: int) -> tuple[str, Any]:
    """The colour and the line style of a type of edge, as matplotlib takes them."""
    dashes = TYPE_DASHES[number % len(TYPE_DASHES)]
    return TYPES[number % len(TYPES)], (0, dashes) if dashes else "solid"


def type_entry(number: int, thick: float) -> Line2D:
    """The look of a type of edge in a legend."""
    colour, style = type_style(number)
    return Line2D([], [], color=colour, linewidth=1.4 * thick, linestyle=style)


def node_entry(number: int) -> Line2D:
    """The look of a type of node in a legend."""
    colour, marker = GROUPS[number % len(GROUPS)], MARKERS[number % len(MARKERS)]
    return Line2D([], [], color=colour, marker=marker, markersize=4.5, linestyle="none")


def draw_arrows(ax: Axes, segments: np.ndarray, colours: Any, size: float, zorder: float) -> None:
    """A triangle on each of the edges ``[m, 2, 2]`` that points to its end; ``size`` is in units of the drawing."""
    if not len(segments):
        return
    way = segments[:, 1] - segments[:, 0]
    length = np.linalg.norm(way, axis=1, keepdims=True).clip(min=1e-12)
    along = way / length * np.minimum(size, 0.45 * length)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1) * 0.42
    tip = segments[:, 0] + 0.68 * way + along / 2
    corners = np.stack([tip, tip - along + across, tip - along - across], axis=1)  # [m, 3, 2]
    ax.add_collection(PolyCollection(list(corners), facecolors=colours, linewidths=0, zorder=zorder))


def height_of(ax: Axes) -> float:
    """The height of what a drawing shows, relative to its width."""
    return float(abs(np.diff(ax.get_ylim())[0] / np.diff(ax.get_xlim())[0]))


def widen(ax: Axes, height: float) -> None:
    """Add space around a drawing until it is ``height`` times as high as wide."""
    now = height_of(ax)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    across, up = max(now / height, 1) * (right - left) / 2, max(height / now, 1) * (top - bottom) / 2
    x, y = (left + right) / 2, (bottom + top) / 2
    ax.set(xlim=(x - across, x + across), ylim=(y - up, y + up))


def wrapped(caption: str, letters: int) -> str:
    """``caption`` in lines of at most ``letters`` letters, broken after a comma where possible."""
    lines: list[str] = []
    for part in re.split(r"(?<=,) ", caption):
        if lines and len(lines[-1]) + 1 + len(part) <= letters:
            lines[-1] += f" {part}"
        else:
            lines.append(fill(part, letters))
    return "\n".join(lines)

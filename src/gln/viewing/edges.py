"""How edges look: layered lines that stand out on any background and differ by dashes, not only by colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from gln.viewing.colours import EDGE, EXTRA, INK, MISSING

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

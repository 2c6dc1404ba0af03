"""Whole pictures for papers and pages: drawings side by side, at the size in which they are printed.

The suffix of a path says the format. In SVG and PDF text stays text: it can be searched, and edited.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.files import write_atomically
from gln.viewing.colours import EDGE, EXTRA, GROUPS, INK, MISSING
from gln.viewing.pictures import FORMATS, check_nodes, draw_errors, draw_graph, places

PANEL = 3.2  # inches that a drawing has, unless the whole picture is to be narrower
NARROWEST = 1.05  # inches; below, a picture has fewer columns
SMALLEST = 7  # points of the smallest letters, however narrow the picture is
MARKERS = "os^Dvp"
TEXT: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "gln"}

Curves = Mapping[str, Mapping[float, Sequence[float]]]


def draw_curves(curves: Curves, ax: Axes, names: Sequence[str] | None = None) -> None:
    """Curves into ``ax``, as :func:`save_curves` draws a panel; the place of a name in ``names`` says its colour."""
    names = list(curves) if names is None else list(names)
    for name, points in curves.items():
        along = sorted(points)
        values = [points[place] for place in along]
        look = names.index(name)
        colour = GROUPS[look % len(GROUPS)]
        marker = MARKERS[look % len(MARKERS)] if len(along) <= 20 else None
        means = [float(np.mean(runs)) for runs in values]
        ax.plot(along, means, color=colour, marker=marker, markersize=3, linewidth=1.2, label=name)
        ax.fill_between(along, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.2, lw=0)
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.tick_params(labelsize=SMALLEST, colors=INK)


class Sheet:
    """A figure with a row of drawings after another, and letters that can be read at its size."""

    def __init__(
        self, count: int, title: str, width: float | None, columns: int | None, height: float = 1.08
    ) -> None:
        most = 3 if count in (3, 5, 6, 9) else 4
        if width is not None:
            if not NARROWEST <= width <= 100:
                raise GLNError(f"Got width={width}; expected inches, {NARROWEST} or more.")
            most = min(most, int(width / NARROWEST))
        if columns is not None and columns < 1:
            raise GLNError(f"Got columns={columns}; expected at least 1.")
        self.columns = min(count, most) if columns is None else min(columns, count)
        self.rows = -(-count // self.columns)
        width = PANEL * self.columns if width is None else width
        self.panel = width / self.columns
        self.scale = min(self.panel / PANEL, 1.0)
        self.text = max(9 * self.scale, SMALLEST)
        size = (width, (height * self.panel + (0.12 if self.scale < 1 else 0)) * self.rows + 0.45)
        tight: Any = {"w_pad": 0.02, "h_pad": 0.04, "wspace": 0, "hspace": 0} if self.scale < 1 else {}
        self.figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(**tight))
        if title:
            self.figure.suptitle(title, color=INK, fontsize=max(13 * self.scale, 8), parse_math=False)
        self.drawn = 0

    def next(self) -> Axes:
        """The next free place."""
        self.drawn += 1
        return self.figure.add_subplot(self.rows, self.columns, self.drawn)

    def draw(self, graph: Data, truth: Data | None, caption: str) -> tuple[int, int]:
        """A graph with its caption; against a truth, how many edges are missing and extra."""
        ax, wrong = self.next(), (0, 0)
        if truth is None:
            draw_graph(graph, ax, self.scale)
        else:
            wrong = _draw_against(graph, truth, ax, self.scale)
            caption = f"{caption}, {wrong[0]} missing, {wrong[1]} extra"
        words = _wrapped(caption, max(int(self.panel * 72 / (0.57 * self.text)), 8))
        ax.set_anchor("N")  # the room that is left is below, for the words
        ax.set_title(words, fontsize=self.text, color=INK, y=-0.03, pad=0, va="top", parse_math=False)
        return wrong

    def label(self, ax: Axes, title: str, over: str, value: str) -> None:
        """Words around curves."""
        ax.set_title(title, fontsize=self.text, color=INK, parse_math=False)
        ax.set_xlabel(over, fontsize=max(8 * self.scale, SMALLEST), color=INK)
        ax.set_ylabel(value, fontsize=max(8 * self.scale, SMALLEST), color=INK)

    def add_legend(self, image: bool) -> None:
        """What the colours of right, missing and extra edges mean; on an image right ones are white."""
        rim = [Stroke(linewidth=4, foreground=INK), Normal()] if image else None
        colours = {"predicted and true": "white" if image else EDGE, "missing": MISSING, "extra": EXTRA}
        lines = [Line2D([], [], color=colour, linewidth=2, path_effects=rim) for colour in colours.values()]
        self._legend(lines, list(colours))

    def add_lines(self, names: Sequence[str]) -> None:
        """The names of curves with their looks."""
        looks = [(GROUPS[i % len(GROUPS)], MARKERS[i % len(MARKERS)]) for i in range(len(names))]
        self._legend(
            [Line2D([], [], color=c, marker=m, markersize=3, linewidth=1.5) for c, m in looks], names
        )

    def _legend(self, lines: Sequence[Line2D], names: Sequence[str]) -> None:
        width = self.panel * self.columns
        small: dict[str, Any] = {"handlelength": 1.4, "columnspacing": 1.0} if width < 5 else {}
        self.figure.legend(
            lines,
            names,
            loc="outside lower center",
            ncols=min(len(names), 3 if width < 5 else 6),
            frameon=False,
            labelcolor=INK,
            fontsize=min(max(2.2 * width, SMALLEST), 10),
            **small,
        )


def write_figure(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """Write a matplotlib figure in one step, the same to the byte each time it is drawn."""
    path = check_picture(path)
    kind = path.suffix.lstrip(".").lower()
    buffer = io.BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with matplotlib.rc_context(TEXT):
        dots = dpi if figure.get_figwidth() > 5 else 2 * dpi
        figure.savefig(buffer, format=kind, dpi=dots, facecolor="white", metadata=dates)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
    return path


def check_picture(path: Path | str) -> Path:
    """Refuse what is no name of a picture."""
    path = Path(path)
    if path.suffix.lstrip(".").lower() not in FORMATS:
        raise GLNError(f"Got {path.name!r}; pictures are written as .png, .pdf or .svg.")
    return path


def _draw_against(graph: Data, truth: Data, ax: Axes, scale: float) -> tuple[int, int]:
    """The right edges as a graph, the wrong ones over it, all where the nodes of the truth are."""
    check_nodes(graph, truth)
    pos = truth.get("pos")
    where = torch.from_numpy(places(truth)) if pos is None or pos.shape[1] == 0 else pos
    graph, truth = (Data(**one.to_dict() | {"pos": where}) for one in (graph, truth))
    keys = [one.edge_index[0] * truth.num_nodes + one.edge_index[1] for one in (truth, graph)]
    right = Data(**truth.to_dict() | {"edge_index": truth.edge_index[:, torch.isin(*keys)]})
    draw_graph(right, ax, scale)
    return draw_errors(graph, truth, ax, scale)


def _wrapped(caption: str, letters: int) -> str:
    """Lines of so many letters, broken after a comma where that can be."""
    lines: list[str] = []
    for part in re.split(r"(?<=,) ", caption):
        if lines and len(lines[-1]) + 1 + len(part) <= letters:
            lines[-1] += f" {part}"
        else:
            lines.append(fill(part, letters))
    return "\n".join(lines)

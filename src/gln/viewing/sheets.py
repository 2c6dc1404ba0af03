"""Whole pictures for papers and web pages: drawings side by side, at the size in which they are printed.

The suffix of a path determines the format. In SVG and PDF, text stays text that can be searched and edited.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from gln.errors import GLNError
from gln.files import check_picture, write_atomically
from gln.graphs import as_graph, as_graphs
from gln.graphs.check import as_record
from gln.graphs.record import Graph
from gln.graphs.regions import is_image
from gln.inference.predict import Choice, Method
from gln.inference.steps import every_step
from gln.viewing import style
from gln.viewing.pictures import differences, draw_errors, draw_graph, places
from gln.viewing.style import height_of, legend_entry, node_entry, type_entry, widen, wrapped

if TYPE_CHECKING:
    from torch_geometric.data import Data

PANEL = 3.2  # inches per drawing, unless the whole picture must be narrower
NARROWEST = 1.05  # inches per drawing; below it, a picture gets fewer columns
SMALLEST = 7  # points of the smallest text, however narrow the picture
FLATTEST = 0.4  # a row of drawings is at least this high, relative to the width of a column
TEXT: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "gln"}


class Sheet:
    """A figure with rows of drawings, and text that is readable at its size."""

    def __init__(self, count: int, title: str, width: float | None, columns: int | None) -> None:
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
        self.figure = Figure(
            figsize=(width, 1.08 * self.panel * self.rows + 0.45),
            layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0, hspace=0),
        )
        self.grid = self.figure.add_gridspec(self.rows, self.columns)
        self.title = title
        if title:
            self.figure.suptitle(title, color=style.INK, fontsize=max(13 * self.scale, 8), parse_math=False)
        self.drawn = 0
        self.drawings: list[tuple[int, Axes, int]] = []  # row, axes, and lines of text below
        self.kinds: set[str] = set()  # kinds of edges that were drawn against a truth
        self.images: list[bool] = []  # whether each of those graphs lies on an image
        self.types: dict[tuple[str, int], str] = {}  # the types of edges and nodes that were drawn, in words

    def next(self) -> Axes:
        """The axes of the next free place."""
        self.drawn += 1
        return self.figure.add_subplot(self.grid[divmod(self.drawn - 1, self.columns)])

    def draw(self, graph: Graph | Data, truth: Graph | Data | None, caption: str) -> tuple[int, int]:
        """Draw a graph with its caption; returns how many edges are missing and extra against the truth."""
        ax, missing, extra, counts = self.next(), 0, 0, ""
        graph, truth = as_record(graph), None if truth is None else as_record(truth)
        if truth is None:
            draw_graph(graph, ax, self.scale)
        else:
            found = {kind: len(pairs) for kind, pairs in differences(graph, truth).items()}
            _draw_against(graph, truth, ax, self.scale)
            missing, extra, other = found.values()
            counts = f"{missing} missing, {extra} extra" + (f", {other} of another type" if other else "")
            found[style.RIGHT] = truth.edge_type is None and len(truth.edges_once()) > missing
            self.kinds |= {kind for kind, some in found.items() if some}
            self.images.append(is_image(graph))
        self._note_types(graph if truth is None else truth)
        self.caption(ax, caption, counts)
        return missing, extra

    def _note_types(self, graph: Graph) -> None:
        for what in ("edge_type", "node_type"):
            names = graph.get(f"{what}_names")
            for number in set() if graph[what] is None else set(graph[what].tolist()):
                usual = f"{'node ' if what == 'node_type' else ''}type {number}"
                self.types.setdefault((what, number), usual if names is None else names[number])
        if graph.edge_weight is not None:
            self.types["weight", 0] = "the wider, the larger the weight"

    def caption(self, ax: Axes, words: str, more: str = "") -> None:
        """Put text below a drawing, with ``more`` on its own line unless one line holds both."""
        letters = max(int(self.panel * 72 / (0.57 * self.text)), 8)
        line = f"{words}, {more}" if more else words
        if len(line) > letters:
            line = "\n".join(wrapped(part, letters) for part in (words, more) if part)
        ax.set_title(line, fontsize=self.text, color=style.INK, y=0, pad=-2, va="top", parse_math=False)
        ax.set_anchor("N")  # the spare room is below, for the text
        self.drawings.append(((self.drawn - 1) // self.columns, ax, line.count("\n") + 1))

    def fit(self) -> None:
        """Make every row as high as its highest drawing, but no higher than wide, and fit the figure to all rows."""
        ratios, words = [], 0
        for row in range(self.rows):
            drawings = [(ax, lines) for where, ax, lines in self.drawings if where == row]
            ratios.append(float(np.clip(max(height_of(ax) for ax, _ in drawings), FLATTEST, 1)))
            for ax, _ in drawings:
                widen(ax, ratios[-1])
            words += max(lines for _, lines in drawings)
        self.grid.set_height_ratios(ratios)
        inches = sum(ratios) * (self.panel - 0.06) + words * self.text * 1.25 / 72 + self.rows * 0.1
        around = bool(self.title) + len(self.figure.legends)
        self.figure.set_figheight(inches + 0.22 * around)

    def write(self, path: Path, dpi: int = 150) -> Path:
        """Write the sheet in the format of the path."""
        if self.drawings:
            self.fit()
        return write_figure(self.figure, path, dpi)

    def add_legend(self) -> None:
        """Add a legend for the types, and the right, missing and extra edges that were drawn."""
        thick, image = self.scale**0.5, all(self.images)  # right edges are white on an image
        kinds = [kind for kind in (style.RIGHT, *style.WRONG, style.OTHER_TYPE) if kind in self.kinds]
        looks: list[Any] = []
        for what, number in sorted(self.types):
            line = Line2D([], [], color=style.EDGE, alpha=0.45, linewidth=3 * thick)
            entries = {"edge_type": type_entry(number, thick), "weight": line}
            looks.append(entries.get(what) or node_entry(number))
        looks += [legend_entry(kind, image, thick) for kind in kinds]
        if not looks:
            return
        names, width = [*(self.types[key] for key in sorted(self.types)), *kinds], self.panel * self.columns
        small: dict[str, Any] = {"handlelength": 1.4, "columnspacing": 1.0} if width < 5 else {}
        room = 72 * width / (0.62 * self.text)  # letters in a line
        most = max(1, int(room / (max(map(len, names)) + 7)))
        self.figure.legend(
            looks,
            names,
            loc="outside lower center",
            ncols=min(len(names), most, 3 if width < 5 else 6),
            frameon=False,
            labelcolor=style.INK,
            fontsize=self.text,
            **small,
        )


def write_figure(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """Write a matplotlib figure atomically; the same figure gives the same bytes every time."""
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


def _draw_against(graph: Graph, truth: Graph, ax: Axes, scale: float) -> None:
    """Draw the right edges as a graph and the wrong ones over it, at the node positions of the truth."""
    where = truth.pos if truth.widths[0] else torch.from_numpy(places(truth))
    graph, truth = (Graph(**vars(one) | {"pos": where}) for one in (graph, truth))
    keys = [one.edge_index[0] * truth.num_nodes + one.edge_index[1] for one in (graph, truth)]
    shown = graph if truth.edge_type is not None and graph.edge_type is not None else truth
    draw_graph(shown.some_edges(torch.isin(*(keys if shown is graph else keys[::-1]))), ax, scale)
    draw_errors(graph, truth, ax, scale)


SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def save_gallery(
    graphs: Iterable[Any],
    path: Path | str,
    title: str = "",
    captions: Sequence[str] | None = None,
    truths: Iterable[Any] | None = None,
    *,
    width: float | None = None,
    columns: int | None = None,
) -> Path:
    """Draw graphs side by side into one picture; the suffix (png, pdf, svg) determines the format.

    With ``truths``, the graphs are predictions: missing and extra edges stand out. Graphs come in any form that
    :func:`gln.graphs.as_graph` takes.

    Args:
        graphs: what to draw.
        path: the picture.
        title: text above it.
        captions: text below each graph; default: its numbers of nodes and edges.
        truths: the true graphs, one for each graph.
        width: of the whole picture as printed, in inches: 3.3 for one column of two. Text has 7 points or more at
            that size. Default: 3.2 for every graph in a row.
        columns: graphs in a row; default: as many as fit.
    """
    path, graphs = check_picture(path), as_graphs(graphs)
    truths = None if truths is None else as_graphs(truths, "truths")
    for name, others in (("captions", captions), ("truths", truths)):
        if others is not None and len(others) != len(graphs):
            raise GLNError(f"Got {len(graphs)} graphs and {len(others)} {name}; give one for each graph.")
    sheet = Sheet(len(graphs), title, width, columns)
    for index, graph in enumerate(graphs):
        caption = f"{graph.num_nodes:,} nodes, {len(graph.edges_once()):,} edges"
        caption = caption if captions is None else captions[index]
        sheet.draw(graph, None if truths is None else truths[index], caption)
    sheet.add_legend()
    return sheet.write(path)


def save_steps(
    model: Method,
    graph: Any,
    path: Path | str,
    title: str = "",
    *,
    steps: int | None = None,
    width: float | None = None,
    columns: int | None = None,
) -> Path:
    """Draw what a model predicts for the nodes of a graph after every step: ``A⁰`` … ``A^L``.

    The edges of ``graph``, if it has any, are the truth to compare with. ``width`` and ``columns`` as in
    :func:`save_gallery`.
    """
    path, graph = check_picture(path), as_graph(graph)
    (seen,) = every_step(model, [graph], Choice(steps=steps))
    count = len(seen.chances)
    sheet = Sheet(count, title, width, columns)
    for number, chances in enumerate(seen.chances, 0 if count > 1 else 1):
        found = replace(seen, chances=chances[None]).answer(graph)
        found.community = graph.get("community")
        caption = f"A{number}".translate(SUPERSCRIPTS)
        # An empty start has no errors yet.
        compared = graph.num_edges > 0 and (number > 0 or found.num_edges > 0)
        if not compared:
            caption = f"{caption}, {len(found.edges_once()) or 'no'} edges"
        sheet.draw(found, graph if compared else None, caption)
    sheet.add_legend()
    return sheet.write(path)

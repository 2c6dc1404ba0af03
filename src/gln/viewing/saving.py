"""Pictures for papers and web pages, each in one call; the suffix of the path determines the format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import as_graph, as_graphs, make_graph
from gln.training.prediction import Predictor
from gln.viewing.sheets import Curves, Sheet, check_picture, draw_curves
from gln.viewing.views import View, watch

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
        caption = f"{graph.num_nodes} nodes, {graph.num_edges // 2} edges"
        caption = caption if captions is None else captions[index]
        sheet.draw(graph, None if truths is None else truths[index], caption)
    sheet.add_legend()
    return sheet.write(path)


def save_steps(
    model: nn.Module | Predictor,
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
    seen = watch(model, [View(graph)], steps=steps)[0].seen
    assert seen is not None
    count = len(seen.chances)
    sheet = Sheet(count, title, width, columns)
    for number, chances in enumerate(seen.chances, 0 if count > 1 else 1):
        found = _with_edges(graph, seen.pairs[chances >= np.float32(seen.threshold)])
        caption = f"A{number}".translate(SUPERSCRIPTS)
        compared = graph.num_edges > 0 and (
            number > 0 or found.num_edges > 0
        )  # an empty start has no errors yet
        if not compared:
            caption = f"{caption}, {found.num_edges // 2 or 'no'} edges"
        sheet.draw(found, graph if compared else None, caption)
    sheet.add_legend()
    return sheet.write(path)


def save_curves(
    panels: Mapping[str, Curves],
    path: Path | str,
    *,
    over: str = "",
    value: str = "",
    log: bool = False,
    width: float | None = None,
    columns: int | None = None,
) -> Path:
    """Draw curves, one panel per title: for each name, the values of all runs at each point of the axis.

    The line is the mean over runs, and the band reaches from the lowest to the highest. An example is
    ``{"IoU": {"GLN": {1: [0.61, 0.64], 2: [0.70, 0.73]}}}``: two runs after one and two epochs.

    Args:
        panels: what to draw; a name has the same colour in every panel.
        path: the picture.
        over: label of the horizontal axis.
        value: label of the vertical axis.
        log: use a logarithmic vertical scale.
        width: as in :func:`save_gallery`.
        columns: panels in a row.
    """
    path = check_picture(path)
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    if not names:
        raise GLNError("Got no curves; give at least one panel with a curve.")
    sheet = Sheet(len(panels), "", width, columns, height=0.82)
    for title, curves in panels.items():
        ax = sheet.next()
        draw_curves(curves, ax, names)
        ax.set_yscale("log" if log else "linear")
        sheet.label(ax, title, over, value)
    if len(names) > 1:
        sheet.add_lines(names)
    return sheet.write(path)


def _with_edges(graph: Data, pairs: np.ndarray) -> Data:
    """The nodes of ``graph`` with these edges ``[m, 2]``."""
    rows = {name: graph[name] for name in ("pos", "x") if graph.get(name) is not None}
    found = make_graph(**rows, edges=pairs, num_nodes=graph.num_nodes)
    if graph.get("community") is not None:
        found.community = graph.community
    return found

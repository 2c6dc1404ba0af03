"""Pictures of graphs with matplotlib: points and edges, solid in 3-D, over the image they come from."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.files import write_atomically
from gln.graphs import as_graph, as_graphs, to_networkx

INK = "#1f2933"
EDGE = "#2b5f8a"
MISSING, EXTRA = "#D55E00", "#CC79A7"  # true edges not predicted, predicted edges not true
# Okabe and Ito's palette, told apart by colour-blind readers too.
GROUPS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442"]
FAR_TO_NEAR = LinearSegmentedColormap.from_list("depth", ["#c3d9e8", "#4f8fbf", "#0b3c5d"])
TILT = np.radians(35)  # solids lie on their two longest axes, seen from this angle above
FLATTEST = 0.6  # solids are drawn with no axis shorter than this share of the longest
FORMATS = ("png", "pdf", "svg")


def save_gallery(
    graphs: Iterable[Any],
    path: Path | str,
    title: str = "",
    captions: Sequence[str] | None = None,
    truths: Iterable[Any] | None = None,
) -> Path:
    """Draw graphs side by side into one picture; the suffix (png, pdf, svg) says the format.

    With ``truths``, the graphs are predictions: edges that are missing or too many stand out. Graphs come in any
    form that :func:`gln.graphs.as_graph` takes.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise GLNError(f"Got {path.name!r}; pictures are written as .png, .pdf or .svg.")
    graphs = as_graphs(graphs)
    truths = None if truths is None else as_graphs(truths, "truths")
    for name, others in (("captions", captions), ("truths", truths)):
        if others is not None and len(others) != len(graphs):
            raise GLNError(f"Got {len(graphs)} graphs and {len(others)} {name}; give one for each graph.")
    columns = min(len(graphs), 3 if len(graphs) in (3, 5, 6, 9) else 4)
    rows = -(-len(graphs) // columns)
    figure = Figure(figsize=(3.2 * columns, 3.45 * rows + 0.45), layout="constrained")
    figure.suptitle(title, color=INK, fontsize=13, parse_math=False)
    for index, graph in enumerate(graphs):
        ax = figure.add_subplot(rows, columns, index + 1)
        draw_graph(graph, ax)
        caption = (
            captions[index]
            if captions is not None
            else f"{graph.num_nodes} nodes, {graph.num_edges // 2} edges"
        )
        if truths is not None:
            missing, extra = draw_errors(graph, truths[index], ax)
            caption = f"{caption}, {missing} missing, {extra} extra"
        ax.set_title(caption, fontsize=9, color=INK, y=-0.07, parse_math=False)
    if truths is not None:
        right = "white" if all(map(is_image, graphs)) else EDGE
        rim = [Stroke(linewidth=4, foreground=INK), Normal()] if right == "white" else None
        lines = [
            Line2D([], [], color=colour, linewidth=2, path_effects=rim) for colour in (right, MISSING, EXTRA)
        ]
        names = ["predicted and true", "missing", "extra"]
        figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False, labelcolor=INK)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150, facecolor="white")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
    return path


def draw_graph(graph: Any, ax: Axes) -> None:
    """One graph, in any form that :func:`gln.graphs.as_graph` takes, into ``ax``.

    Positions with three or more values are seen in perspective of depth: nearer is darker. Nodes are coloured by
    their ``community``. RGB features on a pixel grid are drawn as the image below the graph.
    """
    graph = as_graph(graph)
    ends = _pairs(graph)  # [2, m]
    ax.set_axis_off()
    ax.set_aspect("equal")
    if is_image(graph):
        _draw_image(ax, graph, ends)
        return
    points, depth = _project(graph)
    segments = points[ends.T]  # [m, 2, 2]
    size = float(np.clip(900 / len(points), 3, 28))
    if depth is None:
        ax.add_collection(LineCollection(segments, colors=EDGE, alpha=0.45, linewidths=0.7))
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=size,
            c=_node_colours(graph),
            edgecolors="white",
            linewidths=0.4,
            zorder=2,
        )
    else:
        middle = depth[ends].mean(axis=0)  # [m]
        order = np.argsort(middle)  # what is near is drawn last
        near = middle[order]
        lines = LineCollection(segments[order], colors=FAR_TO_NEAR(near), linewidths=0.5 + 0.6 * near)
        ax.add_collection(lines)
        ax.scatter(points[:, 0], points[:, 1], s=size / 2, c=FAR_TO_NEAR(depth), linewidths=0, zorder=2)
    centre, reach = (points.max(0) + points.min(0)) / 2, max(np.ptp(points, axis=0).max() * 0.54, 1e-9)
    ax.set(xlim=(centre[0] - reach, centre[0] + reach), ylim=(centre[1] - reach, centre[1] + reach))


def draw_errors(graph: Data, truth: Data, ax: Axes) -> tuple[int, int]:
    """The differences to the truth, drawn over the graph; how many edges are missing and how many are extra."""
    if truth.num_nodes != graph.num_nodes:
        raise GLNError(
            f"A truth has {truth.num_nodes} nodes, its graph has {graph.num_nodes}; give truths in the order of graphs."
        )
    image = is_image(graph)
    points = graph.pos.numpy(force=True) if image else _project(graph)[0]
    keys = [edges[0] * graph.num_nodes + edges[1] for edges in map(_pairs, (graph, truth))]
    counts = []
    for wrong, colour in ((np.setdiff1d(*keys[::-1]), MISSING), (np.setdiff1d(*keys), EXTRA)):
        ends = np.stack(np.divmod(wrong, graph.num_nodes), axis=-1)  # [w, 2]
        if image:  # above the edges, with a rim as they have, so that it shows on any colour
            ax.add_collection(LineCollection(points[ends], colors=INK, linewidths=5, zorder=3))
        width, height = (3, 4) if image else (1.8, 1.5)
        ax.add_collection(LineCollection(points[ends], colors=colour, linewidths=width, zorder=height))
        counts.append(len(wrong))
    return counts[0], counts[1]


def _pairs(graph: Data) -> np.ndarray:
    """Each edge once, smaller number first: ``[2, m]``."""
    return graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy(force=True)


def _draw_image(ax: Axes, graph: Data, ends: np.ndarray) -> None:
    """The pixels below; the edges above are light with a dark rim, so that they show on any colour."""
    points = graph.pos.numpy(force=True)
    column, row = points.astype(int).T
    image = np.ones((row.max() + 1, column.max() + 1, 3))
    image[row, column] = graph.x.numpy(force=True).clip(0, 1)
    ax.imshow(image, interpolation="nearest")
    width = 28 / max(image.shape)
    ax.add_collection(LineCollection(points[ends.T], colors=INK, linewidths=1.7 * width, capstyle="round"))
    ax.add_collection(
        LineCollection(points[ends.T], colors="white", linewidths=0.8 * width, capstyle="round")
    )


def is_image(graph: Data) -> bool:
    """Whole, non-negative 2-D positions with three features each: pixels and their colours, on a grid they fill."""
    pos, x = graph.get("pos"), graph.get("x")
    if pos is None or x is None or pos.shape[1] != 2 or x.shape[1] != 3:
        return False
    near = pos.max() < 4 * len(pos) ** 0.5 + 64  # an image of scattered points could be of any size
    return bool(near and (pos >= 0).all() and (pos == pos.round()).all())


def _project(graph: Data) -> tuple[np.ndarray, np.ndarray | None]:
    """Where to draw the nodes ``[n, 2]`` and, of solids, how near they are: 0 to 1 ``[n]``."""
    pos = graph.get("pos")
    if pos is None or pos.shape[1] == 0:
        layout = nx.spring_layout(to_networkx(graph), seed=0)
        return np.array([layout[node] for node in range(graph.num_nodes)]), None
    points = pos.numpy(force=True).astype(float)
    if points.shape[1] < 3:
        return np.pad(points, ((0, 0), (0, 2 - points.shape[1]))), None
    points = points - points.mean(axis=0)
    points = (
        points @ np.linalg.eigh(points.T @ points)[1][:, :-4:-1]
    )  # the axes of most spread, longest first
    extent = np.ptp(points, axis=0).clip(min=1e-12)
    points *= np.maximum(1, FLATTEST * extent.max() / extent).clip(max=50)
    across, along, up = points.T
    sine, cosine = np.sin(TILT), np.cos(TILT)
    depth = sine * up - cosine * along
    seen = np.stack([across, sine * along + cosine * up], axis=1)
    return seen, (depth - depth.min()) / max(np.ptp(depth), 1e-12)


def _node_colours(graph: Data) -> list[str]:
    groups = graph.get("community")
    if groups is None:
        return [INK] * graph.num_nodes
    return [GROUPS[group % len(GROUPS)] for group in groups.tolist()]

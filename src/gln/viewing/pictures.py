"""Pictures of graphs with matplotlib: points and edges, solid in 3-D, over the image they come from."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import as_graph, to_networkx
from gln.viewing.colours import DEPTH, EDGE, EXTRA, GROUPS, INK, MISSING

FAR_TO_NEAR = LinearSegmentedColormap.from_list("depth", DEPTH)
TILT = np.radians(35)  # solids lie on their two longest axes, seen from this angle above
FLATTEST = 0.6  # solids are drawn with no axis shorter than this share of the longest
FORMATS = ("png", "pdf", "svg")


def draw_graph(graph: Any, ax: Axes, scale: float = 1.0) -> None:
    """One graph, in any form that :func:`gln.graphs.as_graph` takes, into ``ax``.

    Positions with three or more values are seen in perspective of depth: nearer is darker. Nodes are coloured by
    their ``community``. RGB features on a pixel grid are drawn as the image below the graph. Lines and dots suit a
    drawing 3.2 inches wide; ``scale`` 0.5 suits one half as wide.
    """
    graph = as_graph(graph)
    ends = _pairs(graph)  # [2, m]
    ax.set_axis_off()
    ax.set_aspect("equal")
    if is_image(graph):
        _draw_image(ax, graph, ends, scale)
        return
    points, depth = _project(graph)
    segments = points[ends.T]  # [m, 2, 2]
    size, thick = float(np.clip(900 / len(points), 3, 28)) * scale**1.6, scale**0.5
    if depth is None:
        ax.add_collection(LineCollection(segments, colors=EDGE, alpha=0.45, linewidths=0.7 * thick))
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=size,
            c=_node_colours(graph),
            edgecolors="white",
            linewidths=0.4 * thick,
            zorder=2,
        )
    else:
        middle = depth[ends].mean(axis=0)  # [m]
        order = np.argsort(middle)  # what is near is drawn last
        near = middle[order]
        lines = LineCollection(
            segments[order], colors=FAR_TO_NEAR(near), linewidths=thick * (0.5 + 0.6 * near)
        )
        ax.add_collection(lines)
        ax.scatter(points[:, 0], points[:, 1], s=size / 2, c=FAR_TO_NEAR(depth), linewidths=0, zorder=2)
    centre, reach = (points.max(0) + points.min(0)) / 2, max(np.ptp(points, axis=0).max() * 0.54, 1e-9)
    ax.set(xlim=(centre[0] - reach, centre[0] + reach), ylim=(centre[1] - reach, centre[1] + reach))


def draw_errors(graph: Any, truth: Any, ax: Axes, scale: float = 1.0) -> tuple[int, int]:
    """The differences to the truth, over what :func:`draw_graph` drew of the predicted ``graph``.

    Returns:
        how many edges are missing and how many are extra.
    """
    graph, truth = as_graph(graph), as_graph(truth)
    check_nodes(graph, truth)
    image = is_image(graph)
    points = graph.pos.numpy(force=True) if image else _project(graph)[0]
    keys = [edges[0] * graph.num_nodes + edges[1] for edges in map(_pairs, (graph, truth))]
    counts, thick = [], scale if image else scale**0.5
    for wrong, colour in ((np.setdiff1d(*keys[::-1]), MISSING), (np.setdiff1d(*keys), EXTRA)):
        ends = np.stack(np.divmod(wrong, graph.num_nodes), axis=-1)  # [w, 2]
        if image:  # above the edges, with a rim as they have, so that it shows on any colour
            ax.add_collection(LineCollection(points[ends], colors=INK, linewidths=5 * thick, zorder=3))
        width, height = (3 * thick, 4) if image else (1.8 * thick, 1.5)
        ax.add_collection(LineCollection(points[ends], colors=colour, linewidths=width, zorder=height))
        counts.append(len(wrong))
    return counts[0], counts[1]


def check_nodes(graph: Data, truth: Data) -> None:
    """Refuse a truth on other nodes."""
    if truth.num_nodes != graph.num_nodes:
        raise GLNError(
            f"A truth has {truth.num_nodes} nodes, its graph has {graph.num_nodes}; give truths in the order of graphs."
        )


def _pairs(graph: Data) -> np.ndarray:
    """Each edge once, smaller number first: ``[2, m]``."""
    return graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy(force=True)


def _draw_image(ax: Axes, graph: Data, ends: np.ndarray, scale: float) -> None:
    """The pixels below; the edges above are light with a dark rim, so that they show on any colour."""
    points = graph.pos.numpy(force=True)
    column, row = points.astype(int).T
    image = np.ones((row.max() + 1, column.max() + 1, 3))
    image[row, column] = graph.x.numpy(force=True).clip(0, 1)
    ax.imshow(image, interpolation="nearest")
    width = scale * 28 / max(image.shape)
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
    points = places(graph)
    if points.shape[1] < 3:
        return points, None
    extent = np.ptp(points, axis=0).clip(min=1e-12)
    points *= np.maximum(1, FLATTEST * extent.max() / extent).clip(max=50)
    across, along, up = points.T
    sine, cosine = np.sin(TILT), np.cos(TILT)
    depth = sine * up - cosine * along
    seen = np.stack([across, sine * along + cosine * up], axis=1)
    return seen, (depth - depth.min()) / max(np.ptp(depth), 1e-12)


def places(graph: Data) -> np.ndarray:
    """Where the nodes are, in the plane ``[n, 2]`` or, on their axes of most spread, in space ``[n, 3]``.

    Nodes without positions lie where their edges pull them.
    """
    pos = graph.get("pos")
    if pos is None or pos.shape[1] == 0:
        layout = nx.spring_layout(to_networkx(graph), seed=0)
        return np.array([layout[node] for node in range(graph.num_nodes)])
    points = pos.numpy(force=True).astype(float)
    if points.shape[1] < 3:
        return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    return main_axes(points)


def main_axes(points: np.ndarray) -> np.ndarray:
    """Points ``[n, p]`` on the three axes of most spread, longest first, about their mean: ``[n, 3]``."""
    points = points - points.mean(axis=0)
    return points @ np.linalg.eigh(points.T @ points)[1][:, :-4:-1]


def _node_colours(graph: Data) -> list[str]:
    groups = graph.get("community")
    if groups is None:
        return [INK] * graph.num_nodes
    return [GROUPS[group % len(GROUPS)] for group in groups.tolist()]

"""Pictures of graphs with matplotlib: in the plane, in 3-D, or over the image they come from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap

from gln.errors import GLNError
from gln.graphs import as_graph, to_networkx
from gln.graphs.record import Graph
from gln.viewing.style import DEPTH, EDGE, GROUPS, INK, RIGHT, WRONG, draw_kind

FAR_TO_NEAR = LinearSegmentedColormap.from_list("depth", DEPTH)
TILT = np.radians(35)  # 3-D graphs lie on their two longest axes, seen from this angle above
FLATTEST = 0.6  # 3-D graphs are drawn with no axis shorter than this share of the longest
SHADES = 40
MARGIN = 0.04  # around a drawing, as a share of its longer side
FORMATS = ("png", "pdf", "svg")


def draw_graph(graph: Any, ax: Axes, scale: float = 1.0) -> None:
    """Draw a graph, in any form that :func:`gln.graphs.as_graph` takes, into ``ax``.

    Positions with three or more values are drawn with depth: nearer is darker. Nodes are coloured by their
    ``community``. RGB features on a pixel grid are drawn as an image below the graph. Lines and dots suit a drawing
    3.2 inches wide; ``scale`` 0.5 suits one half as wide.
    """
    graph = as_graph(graph)
    ends = _pairs(graph)  # [2, m]
    ax.set_axis_off()
    ax.set_aspect("equal")
    if is_image(graph):
        _draw_image(ax, graph, ends, scale)
        return
    points, depth = _project(graph)
    segments, dots = points[ends.T], points  # [m, 2, 2], [n, 2]
    size, thick = float(np.clip(900 / len(points), 3, 28)) * scale**1.6, scale**0.5
    fine = _thickness(len(segments), scale)
    line: dict[str, Any] = {"colors": EDGE, "alpha": 0.45, "linewidths": 0.7 * fine}
    dot = {"s": size, "c": node_colours(graph), "edgecolors": "white", "linewidths": 0.4 * thick}
    if depth is not None:
        middle = depth[ends].mean(axis=0)  # [m]
        order, front = np.argsort(middle), np.argsort(depth)  # near ones are drawn last
        segments, dots, near = segments[order], points[front], _shades(middle[order])
        line = {"colors": FAR_TO_NEAR(near), "linewidths": fine * (0.5 + 0.6 * near)}
        dot = {"s": size / 2, "c": FAR_TO_NEAR(_shades(depth[front])), "linewidths": 0}
    ax.scatter(*dots.T, zorder=2, **dot)
    ax.add_collection(LineCollection(segments, zorder=1, label=RIGHT, **line))
    show(ax, points)


def show(ax: Axes, points: np.ndarray) -> None:
    """Limit ``ax`` to ``points [n, 2]`` and a small margin."""
    margin = max(MARGIN * np.ptp(points, axis=0).max(), 1e-9)
    (left, bottom), (right, top) = points.min(0) - margin, points.max(0) + margin
    ax.set(xlim=(left, right), ylim=(bottom, top))


def draw_errors(graph: Any, truth: Any, ax: Axes, scale: float = 1.0) -> tuple[int, int]:
    """Draw the differences from the truth over the predicted ``graph``, after :func:`draw_graph` has drawn it.

    Returns:
        how many edges are missing and how many are extra.
    """
    graph, truth = as_graph(graph), as_graph(truth)
    check_nodes(graph, truth)
    image = is_image(graph)
    points = graph.pos.numpy(force=True) if image else _project(graph)[0]
    keys = [edges[0] * graph.num_nodes + edges[1] for edges in map(_pairs, (graph, truth))]
    thick = _image_thickness(points, scale) if image else _thickness(len(keys[1]), scale)
    zorder = 3.0 if image else 1.5  # below the dots of the nodes
    counts = []
    for kind, wrong in zip(WRONG, (np.setdiff1d(*keys[::-1]), np.setdiff1d(*keys)), strict=True):
        ends = np.stack(np.divmod(wrong, graph.num_nodes), axis=-1)  # [w, 2]
        draw_kind(ax, points[ends], kind, image=image, thick=thick, zorder=zorder)
        counts.append(len(wrong))
    return counts[0], counts[1]


def _thickness(edges: int, scale: float) -> float:
    """The thickness of lines: many edges are drawn thinner."""
    return scale**0.5 * float(np.clip((300 / max(edges, 1)) ** 0.3, 0.5, 1))


def _shades(depth: np.ndarray) -> np.ndarray:
    """Depths from 0 to 1 in steps too small to see; equal shades keep a vector file small."""
    return np.round(depth * SHADES) / SHADES


def check_nodes(graph: Graph, truth: Graph) -> None:
    """Refuse a truth with another number of nodes."""
    if truth.num_nodes != graph.num_nodes:
        raise GLNError(
            f"A truth has {truth.num_nodes} nodes, but its graph has {graph.num_nodes}; give truths in graph order."
        )


def _pairs(graph: Graph) -> np.ndarray:
    """Each edge once, the smaller node first: ``[2, m]``."""
    return graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy(force=True)


def _draw_image(ax: Axes, graph: Graph, ends: np.ndarray, scale: float) -> None:
    """Draw the pixels, and the edges over them."""
    points = graph.pos.numpy(force=True)
    column, row = points.astype(int).T
    image = np.ones((row.max() + 1, column.max() + 1, 3))
    image[row, column] = graph.x.numpy(force=True).clip(0, 1)
    ax.imshow(image, interpolation="nearest")
    draw_kind(ax, points[ends.T], RIGHT, image=True, thick=_image_thickness(points, scale))


def _image_thickness(points: np.ndarray, scale: float) -> float:
    """The thickness of edges between pixels at ``points [n, 2]``: below a pixel, unless there are very many."""
    return scale * float(np.clip(28 / (points.max() + 1), 0.5, 2))


def is_image(graph: Graph) -> bool:
    """Whether the nodes are pixels: whole, non-negative 2-D positions that fill a grid, with three features each."""
    pos, x = graph.get("pos"), graph.get("x")
    if pos is None or x is None or pos.shape[1] != 2 or x.shape[1] != 3:
        return False
    near = pos.max() < 4 * len(pos) ** 0.5 + 64  # scattered points could need an image of any size
    return bool(near and (pos >= 0).all() and (pos == pos.round()).all())


def _project(graph: Graph) -> tuple[np.ndarray, np.ndarray | None]:
    """Where to draw the nodes ``[n, 2]`` and, in 3-D, how near they are: 0 to 1 ``[n]``."""
    points = places(graph)
    if points.shape[1] < 3:
        return points, None
    across, along, up = not_flat(points).T
    sine, cosine = np.sin(TILT), np.cos(TILT)
    depth = sine * up - cosine * along
    seen = np.stack([across, sine * along + cosine * up], axis=1)
    return seen, (depth - depth.min()) / max(np.ptp(depth), 1e-12)


def not_flat(points: np.ndarray) -> np.ndarray:
    """Points ``[n, 3]`` with short axes stretched, so that all points can be seen in a picture."""
    extent = np.ptp(points, axis=0).clip(min=1e-12)
    return points * np.maximum(1, FLATTEST * extent.max() / extent).clip(max=50)


def places(graph: Graph) -> np.ndarray:
    """Where the nodes are: in the plane ``[n, 2]`` or, along their axes of largest spread, in space ``[n, 3]``.

    Nodes without positions get a spring layout.
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
    """Points ``[n, p]`` along their three axes of largest spread, longest first, about their mean: ``[n, 3]``."""
    points = points - points.mean(axis=0)
    return points @ np.linalg.eigh(points.T @ points)[1][:, :-4:-1]


def node_colours(graph: Graph) -> list[str]:
    """The colour of each node, by its ``community``."""
    groups = graph.get("community")
    if groups is None:
        return [INK] * graph.num_nodes
    return [GROUPS[group % len(GROUPS)] for group in groups.tolist()]


FAINT = "#dde3e8"
CLOUD_TURN, CLOUD_TILT = np.radians(25), np.radians(18)  # the angles of view, from the side and from above
CELLS = 4  # of the grid along the longest side


def draw_cloud(points: np.ndarray, colours: Sequence[str], ax: Axes, scale: float = 1.0) -> None:
    """Draw points ``[n, 3]`` as dots in their colours; ``scale`` as in :func:`gln.viewing.draw_graph`."""
    ax.set_axis_off()
    ax.set_aspect("equal")
    points = not_flat(points)
    low, high = points.min(0), points.max(0)
    longest = max(float((high - low).max()), 1e-9)
    low, high = low - 0.05 * longest, high + 0.05 * longest
    grid = _seen(_walls(low, high, 1.1 * longest / CELLS))[..., :2]  # [g, 2, 2]
    ax.add_collection(LineCollection(list(grid), colors=FAINT, linewidths=0.6 * scale**0.5, zorder=1))
    seen = _seen(points)
    order = np.argsort(seen[:, 2])  # near points are drawn last
    ax.scatter(
        seen[order, 0],
        seen[order, 1],
        s=22 * scale**1.2,
        c=[colours[node] for node in order],
        edgecolors="white",
        linewidths=0.3 * scale**0.5,
        zorder=2,
    )
    show(ax, grid.reshape(-1, 2))


def _seen(points: np.ndarray) -> np.ndarray:
    """Points ``[..., 3]`` as seen: across, up, and how near they are."""
    across = points[..., 0] * np.cos(CLOUD_TURN) + points[..., 1] * np.sin(CLOUD_TURN)
    along = points[..., 1] * np.cos(CLOUD_TURN) - points[..., 0] * np.sin(CLOUD_TURN)
    up = points[..., 2] * np.cos(CLOUD_TILT) + along * np.sin(CLOUD_TILT)
    return np.stack([across, up, points[..., 2] * np.sin(CLOUD_TILT) - along * np.cos(CLOUD_TILT)], axis=-1)


def _walls(low: np.ndarray, high: np.ndarray, step: float) -> np.ndarray:
    """The lines of a grid ``[g, 2, 3]`` on the floor and the two back walls of a box from ``low`` to ``high``."""
    behind = np.array([low[0], high[1], low[2]])
    lines = []
    for along, aside in product(range(3), repeat=2):
        if along == aside:
            continue
        places = np.append(np.arange(low[aside], high[aside] - step / 4, step), high[aside])
        for place in places:
            ends = np.stack([behind, behind])
            ends[:, along], ends[:, aside] = (low[along], high[along]), place
            lines.append(ends)
    return np.stack(lines)

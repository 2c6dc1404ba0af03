"""Pictures of graphs with matplotlib: in the plane, in 3-D, or over the image they come from."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgba, to_rgba_array

from gln.errors import GLNError
from gln.graphs import as_graph, to_networkx
from gln.graphs.record import Graph
from gln.graphs.regions import is_image
from gln.viewing import style
from gln.viewing.style import draw_arrows, draw_kind, type_style

FAR_TO_NEAR = LinearSegmentedColormap.from_list("depth", style.DEPTH)
TILT = np.radians(35)  # 3-D graphs lie on their two longest axes, seen from this angle above
FLATTEST = 0.6  # 3-D graphs are drawn with no axis shorter than this share of the longest
SHADES = 40
MARGIN = 0.04  # around a drawing, as a share of its longer side
FEW = 200  # nodes; with more, all that needs every two of them takes long
ROUNDS = 12  # of making the lengths of edges alike


def draw_graph(graph: Any, ax: Axes, scale: float = 1.0) -> None:
    """Draw a graph, in any form that :func:`gln.graphs.as_graph` takes, into ``ax``.

    Positions with three or more values are drawn with depth: nearer is darker. Nodes are coloured by their
    ``community``, or have the colour and shape of their ``node_type``. An edge has the colour and dashes of its
    ``edge_type``, is wider the larger its ``edge_weight``, and is an arrow if the graph is directed. RGB features on a
    pixel grid are drawn as an image below the graph. Lines and dots suit a drawing 3.2 inches wide; ``scale`` 0.5 suits
    one half as wide.
    """
    graph = as_graph(graph)
    ends = graph.edges_once()  # [m, 2]
    ax.set_axis_off()
    ax.set_aspect("equal")
    if is_image(graph):
        _draw_image(ax, graph, ends, scale)
        return
    points, depth = _project(graph)
    segments, dots = points[ends], points  # [m, 2, 2], [n, 2]
    size, thick = float(np.clip(900 / len(points), 3, 28)) * scale**1.6, scale**0.5
    fine = _thickness(len(segments), scale)
    line: dict[str, Any] = {"colors": style.EDGE, "alpha": 0.45, "linewidths": 0.7 * fine}
    dot = {"s": size, "c": node_colours(graph), "edgecolors": "white", "linewidths": 0.4 * thick}
    order, front = np.arange(len(ends)), np.arange(len(points))
    if depth is not None:
        middle = depth[ends].mean(axis=1)  # [m]
        order, front = np.argsort(middle), np.argsort(depth)  # near ones are drawn last
        segments, dots, near = segments[order], points[front], _shades(middle[order])
        line = {"colors": FAR_TO_NEAR(near), "linewidths": fine * (0.5 + 0.6 * near)}
        dot = {"s": size / 2, "c": FAR_TO_NEAR(_shades(depth[front])), "linewidths": 0}
    line |= _kind_lines(graph, order, line, 1.1 * fine)
    if graph.node_type is None:
        ax.scatter(*dots.T, zorder=2, **dot)
    else:
        dot |= {"s": 1.3 * size, "edgecolors": "white", "linewidths": 0.4 * thick}
        _draw_node_types(ax, dots, graph.node_type[front].tolist(), dot)
    ax.add_collection(LineCollection(segments, zorder=1, label=style.RIGHT, **line))
    if graph.directed:
        colours = to_rgba_array(line["colors"], line.get("alpha"))
        draw_arrows(ax, segments, colours if len(colours) > 1 else colours[0], _arrow(points, len(ends)), 1.2)
    show(ax, points)


def _kind_lines(graph: Graph, order: np.ndarray, line: dict[str, Any], thick: float) -> dict[str, Any]:
    """How lines differ by the type and weight of the edges in ``order``; nothing if they have none."""
    once, more = graph.listed_once(), dict[str, Any]()
    if graph.edge_type is not None:
        looks = [type_style(number) for number in graph.edge_type[once][order].tolist()]
        near = np.broadcast_to(np.asarray(line["linewidths"]) / np.max(line["linewidths"]), len(order))
        more["colors"] = [
            to_rgba(colour, 0.4 + 0.5 * part) for (colour, _), part in zip(looks, near, strict=True)
        ]
        more |= {"alpha": None, "linestyles": [dashes for _, dashes in looks], "capstyle": "butt"}
        more["linewidths"] = np.broadcast_to(thick, len(order))
    if graph.edge_weight is not None and len(order):
        weight = graph.edge_weight[once][order].numpy(force=True)
        more["linewidths"] = thick * (0.35 + 2.4 * weight / weight.max())
    return more


def _draw_node_types(ax: Axes, dots: np.ndarray, types: list[int], dot: dict[str, Any]) -> None:
    """Draw the nodes at ``dots [n, 2]`` with the colour and shape of their types."""
    for number in sorted(set(types)):
        some = [place for place, kind in enumerate(types) if kind == number]
        colour, marker = style.GROUPS[number % len(style.GROUPS)], style.MARKERS[number % len(style.MARKERS)]
        ax.scatter(*dots[some].T, zorder=2, marker=marker, **dot | {"c": colour})


def _arrow(points: np.ndarray, edges: int) -> float:
    """The length of an arrow's head in units of the drawing: shorter where there are many."""
    share = float(np.clip((60 / max(edges, 1)) ** 0.3, 0.35, 1))
    return float(np.ptp(points, axis=0).max() or 1) * share * 0.05


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
    wrong, edges, image = differences(graph, truth), len(truth.edges_once()), is_image(graph)
    points = graph.pos.numpy(force=True) if image else _project(graph)[0]
    thick = _image_thickness(points, scale) if image else _thickness(edges, scale)
    zorder = 3.0 if image else 1.5  # below the dots of the nodes
    for kind in style.WRONG:
        segments = points[wrong[kind]]
        draw_kind(ax, segments, kind, image=image, thick=thick, zorder=zorder)
        if graph.directed:
            draw_arrows(ax, segments, style.PLAIN[kind][-1].colour, 1.3 * _arrow(points, edges), zorder + 0.1)
    draw_kind(ax, points[wrong[style.OTHER_TYPE]], style.OTHER_TYPE, image=image, thick=thick, zorder=0.9)
    missing, extra = (len(wrong[kind]) for kind in style.WRONG)
    return missing, extra


def differences(graph: Graph, truth: Graph) -> dict[str, np.ndarray]:
    """The edges ``[w, 2]`` that are missing, those that are extra, and those that are true but of another type."""
    if truth.num_nodes != graph.num_nodes:
        raise GLNError(
            f"A truth has {truth.num_nodes} nodes, but its graph has {graph.num_nodes}; give truths in graph order."
        )
    pairs = [one.edges_once() for one in (truth, graph)]
    theirs, mine = (each @ [graph.num_nodes, 1] for each in pairs)
    wrong = pairs[0][~np.isin(theirs, mine)], pairs[1][~np.isin(mine, theirs)], pairs[1][:0]
    found = dict(zip((*style.WRONG, style.OTHER_TYPE), wrong, strict=True))
    if graph.edge_type is not None and truth.edge_type is not None:
        true, told = (one.edge_type[one.listed_once()].numpy(force=True) for one in (truth, graph))
        _, first, second = np.intersect1d(theirs, mine, assume_unique=True, return_indices=True)
        found[style.OTHER_TYPE] = pairs[1][second[true[first] != told[second]]]
    return found


def _thickness(edges: int, scale: float) -> float:
    """The thickness of lines: many edges are drawn thinner."""
    return scale**0.5 * float(np.clip((300 / max(edges, 1)) ** 0.3, 0.5, 1))


def _shades(depth: np.ndarray) -> np.ndarray:
    """Depths from 0 to 1 in steps too small to see; equal shades keep a vector file small."""
    return np.round(depth * SHADES) / SHADES


def _draw_image(ax: Axes, graph: Graph, ends: np.ndarray, scale: float) -> None:
    """Draw the pixels, and the edges over them."""
    points = graph.pos.numpy(force=True)
    column, row = points.astype(int).T
    image = np.ones((row.max() + 1, column.max() + 1, 3))
    image[row, column] = graph.x.numpy(force=True).clip(0, 1)
    ax.imshow(image, interpolation="nearest")
    draw_kind(ax, points[ends], style.RIGHT, image=True, thick=_image_thickness(points, scale))


def _image_thickness(points: np.ndarray, scale: float) -> float:
    """The thickness of edges between pixels at ``points [n, 2]``: below a pixel, unless there are very many."""
    return scale * float(np.clip(28 / (points.max() + 1), 0.5, 2))


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

    Nodes without positions are laid out (:func:`laid_out`).
    """
    if not graph.widths[0]:
        return laid_out(graph)
    points = graph.pos.numpy(force=True).astype(float)
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
        return [style.INK] * graph.num_nodes
    return [style.GROUPS[group % len(style.GROUPS)] for group in groups.tolist()]


def laid_out(graph: Graph) -> np.ndarray:
    """Places ``[n, 2]``: without crossings if that can be, else by springs."""
    network = nx.Graph(to_networkx(graph))
    few = graph.num_nodes <= FEW
    if few and nx.is_biconnected(network):
        planar, drawing = nx.check_planarity(network)
        if planar:
            return _without_crossings(network, drawing)
    layout = nx.spring_layout(network, seed=0)
    if few and nx.is_connected(network):  # also by how many edges are between any two
        layout = nx.kamada_kawai_layout(network, pos=layout)
    return np.array([layout[node] for node in range(graph.num_nodes)])


def _without_crossings(network: nx.Graph, drawing: nx.PlanarEmbedding) -> np.ndarray:
    """Tutte's drawing: the longest face is a circle, and every other node is at the mean of its neighbours.

    The mean may be weighted; longer edges weigh more in every round, so that inner nodes do not crowd.
    """
    seen: set[tuple[int, int]] = set()
    faces = [drawing.traverse_face(*edge, seen) for edge in drawing.edges if edge not in seen]
    circle = np.array(max(faces, key=len))
    inner = np.setdiff1d(np.arange(len(network)), circle)
    angle = np.linspace(0, 2 * np.pi, len(circle), endpoint=False)
    where = np.zeros((len(network), 2))
    where[circle] = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    weight = nx.to_numpy_array(network, nodelist=range(len(network)), weight=None)
    for _ in range(ROUNDS):
        pull = np.diag(weight.sum(1)) - weight
        fixed = weight[np.ix_(inner, circle)] @ where[circle]
        where[inner] = np.linalg.solve(pull[np.ix_(inner, inner)], fixed)
        length = np.linalg.norm(where[:, None] - where, axis=-1)
        weight *= np.sqrt(length / length[weight > 0].mean() + 1e-6)
        weight /= weight.max()
    return where

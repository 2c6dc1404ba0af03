"""Pictures of predictions with their errors; below them the states of the nodes, as the paper draws them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import nn
from torch_geometric.data import Data

from gln.inference.predict import Choice, outputs
from gln.viewing.pictures import node_colours, not_flat, show
from gln.viewing.sheets import Sheet
from reproduction.data import SEED
from reproduction.specs import BATCH

WIDTH, DPI = 7.2, 200  # inches, the text width of a two-column page
FAINT = "#dde3e8"
TURN, TILT = np.radians(25), np.radians(18)  # the angles of view of a cloud, from the side and from above
CELLS = 4  # of the grid along its longest side


def save_errors(
    graphs: list[Data],
    truths: list[Data],
    captions: list[str],
    title: str,
    path: Path,
    model: nn.Module | None = None,
) -> list[dict[str, int]]:
    """Draw predictions with their right, missing and extra edges, and count these for every graph.

    The same drawing is written as a PDF beside ``path``. With ``model``, its node states are drawn below each graph.
    """
    states = [] if model is None else node_states(model, graphs)
    columns = min(len(graphs), 3 if states else 4)
    rows = -(-len(graphs) // columns) * (2 if states else 1)
    sheet = Sheet(rows * columns, title, WIDTH, columns)
    counts = []
    for start in range(0, len(graphs), columns):
        row = slice(start, start + columns)
        for graph, truth, caption in zip(graphs[row], truths[row], captions[row], strict=True):
            missing, extra = sheet.draw(graph, truth, caption)
            counts.append({"right": truth.num_edges // 2 - missing, "missing": missing, "extra": extra})
        sheet.drawn += -sheet.drawn % columns  # the rest of the row stays free
        for state, truth in zip(states[row], truths[row], strict=False):
            place = sheet.next()
            draw_cloud(in_space(state), node_colours(truth), place, sheet.scale)
            sheet.caption(place, "node states")
        sheet.drawn += -sheet.drawn % columns  # the rest of the row stays free
    sheet.add_legend()
    for suffix in (".png", ".pdf"):
        sheet.write(path.with_suffix(suffix), DPI)
    return counts


def node_states(model: nn.Module, graphs: list[Data]) -> list[np.ndarray]:
    """The node states after the last step ``[n, d]`` of each graph."""
    found: dict[int, np.ndarray] = {}
    for numbers, _, output in outputs(model, graphs, Choice(batch_size=BATCH)):
        for place, number in enumerate(numbers):
            state = output.states[-1][place, : graphs[number].num_nodes]
            found[number] = state.float().numpy(force=True)
    return [found[number] for number in range(len(graphs))]


def in_space(states: np.ndarray) -> np.ndarray:
    """Points ``[n, 3]`` for node states ``[n, d]`` by t-SNE, as the authors' code draws them."""
    from sklearn.manifold import TSNE  # here, as only galleries with states need it

    # The usual rates are for thousands of points and throw so few apart.
    method = TSNE(
        3, perplexity=min(30.0, (len(states) - 1) / 3), learning_rate=5.0, method="exact", random_state=SEED
    )
    points: np.ndarray = method.fit_transform(states)
    return points


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
    across = points[..., 0] * np.cos(TURN) + points[..., 1] * np.sin(TURN)
    along = points[..., 1] * np.cos(TURN) - points[..., 0] * np.sin(TURN)
    up = points[..., 2] * np.cos(TILT) + along * np.sin(TILT)
    return np.stack([across, up, points[..., 2] * np.sin(TILT) - along * np.cos(TILT)], axis=-1)


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

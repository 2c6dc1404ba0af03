"""Clouds of points in space, as the paper draws the states of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from gln.viewing.pictures import not_flat, show

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

"""Clouds: every point is drawn in its colour, inside a box that is fainter than they are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from reproduction.clouds import draw_cloud

COLOURS = ["#0072b2", "#e69f00", "#009e73"]


@pytest.mark.parametrize("flat", [0, 1, 2, 3])
def test_every_point_is_drawn_in_its_colour_within_the_box(flat: int) -> None:
    points = np.random.default_rng(0).normal(size=(7, 3))
    points[:, 3 - flat :] = 0
    colours = [COLOURS[node % 3] for node in range(7)]
    ax = Figure().add_subplot()
    draw_cloud(points, colours, ax)
    box, dots = sorted(ax.collections, key=lambda one: one.get_zorder())
    assert sorted(map(to_hex, dots.get_facecolors())) == sorted(colours)  # type: ignore[arg-type]
    corners = np.concatenate(box.get_segments())  # type: ignore[attr-defined]
    seen = np.asarray(dots.get_offsets())
    assert (seen >= corners.min(0)).all()
    assert (seen <= corners.max(0)).all()
    assert np.mean(to_rgb(box.get_colors()[0])) > 0.8  # type: ignore[attr-defined]


def test_what_is_near_is_drawn_over_what_is_far() -> None:
    points = np.array([[0.0, 0, 0], [0, 1, 0], [1, 0.5, 1]])  # the second axis leads away
    for order in ([0, 1, 2], [1, 0, 2]):
        ax = Figure().add_subplot()
        draw_cloud(points[order], [COLOURS[node] for node in order], ax)
        dots = max(ax.collections, key=lambda one: one.get_zorder())
        drawn = list(map(to_hex, dots.get_facecolors()))  # type: ignore[arg-type]
        assert drawn.index(COLOURS[1]) < drawn.index(COLOURS[0])

"""Galleries: errors counted right, node states flattened faithfully, clouds inside a fainter box."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

import gln
from gln.viewing.sheets import Sheet
from reproduction.gallery import draw_cloud, in_space, node_states, save_errors

COLOURS = ["#0072b2", "#e69f00", "#009e73"]


def test_states_that_are_alike_stay_together_in_space() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 20)
    states = rng.normal(size=(3, 8))[group] * 5 + rng.normal(size=(60, 8)) * 0.1
    points = in_space(states)
    assert points.shape == (60, 3)
    np.testing.assert_array_equal(points, in_space(states))
    distance = np.linalg.norm(points[:, None] - points, axis=-1) + np.diag(np.full(60, np.inf))
    assert (group[distance.argmin(1)] == group).all()


def test_errors_are_counted(tmp_path: Path) -> None:
    pos = torch.rand(5, 2)
    truth = gln.make_graph(pos=pos, edges=[[0, 1], [1, 2], [2, 3]])
    guess = gln.make_graph(pos=pos, edges=[[0, 1], [3, 4]])
    counts = save_errors([guess], [truth], ["five"], "errors", tmp_path / "new" / "a.png")
    assert counts == [{"right": 1, "missing": 2, "extra": 1}]
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / "a.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_node_states_lie_below_their_graphs(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets: list[Sheet] = []
    monkeypatch.setattr(Sheet, "write", lambda self, path, dpi: sheets.append(self))
    torch.manual_seed(0)
    model = gln.GLN(width=8, pair_width=8, kernels=2, steps=2).eval()
    graphs = gln.family("delaunay", points=6).sample(count)
    counts = save_errors(graphs, graphs, [str(n) for n in range(count)], "", tmp_path / "a.png", model)
    assert counts == [{"right": graph.num_edges // 2, "missing": 0, "extra": 0} for graph in graphs]
    places = {ax.get_title(): ax.get_subplotspec() for ax in sheets[0].figure.axes}
    states = [ax.get_subplotspec() for ax in sheets[0].figure.axes if ax.get_title() == "node states"]
    for number, below in enumerate(states):
        above = places[f"{number}, 0 missing, 0 extra"]
        assert above is not None
        assert below is not None
        assert (below.rowspan.start, below.colspan) == (above.rowspan.stop, above.colspan)
    assert len(states) == count


def test_node_states_come_in_the_order_of_the_graphs() -> None:
    torch.manual_seed(0)
    model = gln.GLN(width=8, pair_width=8, kernels=2, steps=2).eval()
    graphs = gln.family("delaunay", points=(5, 9)).sample(6)
    together = node_states(model, graphs)
    for graph, state in zip(graphs, together, strict=True):
        assert state.shape == (graph.num_nodes, 8)
        np.testing.assert_allclose(state, node_states(model, [graph])[0], atol=1e-5)


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

"""Pictures: errors counted right, node states flattened faithfully."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import gln
from gln.viewing.sheets import Sheet
from reproduction.cells import Places, cells_of, choose
from reproduction.data import Parts
from reproduction.last import Start
from reproduction.measures import (
    MEASURES,
    Task,
    bootstrap,
    edge_rows,
    in_space,
    node_states,
    save_errors,
)
from reproduction.runner import run_cell
from reproduction.specs import Scale, columns, experiments


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_random_pairs_are_that_share_of_all_pairs(share: float) -> None:
    (pairs,) = Start(share, 0, 0).pairs([20])
    assert len(pairs) == round(share * 190)
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs)
    assert (pairs[:, 0] < pairs[:, 1]).all()


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


@pytest.mark.parametrize("scale", ["full", "smoke"])
def test_every_column_of_a_gallery_finds_its_title(
    scale: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[Task] = []
    monkeypatch.setitem(MEASURES, "gallery", lambda task: tasks.append(task) or {"picture": ""})
    monkeypatch.setattr(Parts, "test", [])  # no graph is drawn
    monkeypatch.setattr(Parts, "taught_by", lambda parts, other: parts)
    for one in experiments().values():
        if one.measure == "gallery":
            for cell in cells_of(one, scale):
                run_cell(cell, Places(tmp_path))
                assert tasks[-1].column == columns()[cell.column]
    assert tasks


def test_node_states_come_in_the_order_of_the_graphs() -> None:
    torch.manual_seed(0)
    model = gln.GLN(width=8, pair_width=8, kernels=2, steps=2).eval()
    graphs = gln.family("delaunay", points=(5, 9)).sample(6)
    together = node_states(model, graphs)
    for graph, state in zip(graphs, together, strict=True):
        assert state.shape == (graph.num_nodes, 8)
        np.testing.assert_allclose(state, node_states(model, [graph])[0], atol=1e-5)


def test_a_gallery_cell_draws_and_counts_every_graph(tmp_path: Path) -> None:
    cell = choose(["figure-community"], "smoke", "set/community-2/gln")[0]
    measured = run_cell(cell, Places(tmp_path), say=lambda line: None)
    assert cell.picture(Places(tmp_path)).read_bytes().startswith(b"\x89PNG")
    model = gln.load("community")
    test = gln.split(gln.family("community", size=4).sample(12, 0), 0)[2]
    for row in measured["graphs"]:
        truth = test[row["test_graph"]]
        assert row["right"] + row["missing"] == truth.num_edges // 2
        assert row["right"] + row["extra"] == gln.predict(model, truth).num_edges // 2


def test_scores_of_single_graphs_are_those_of_their_matrices_with_and_without_the_diagonal() -> None:
    family = gln.family("community", size=3)
    true, made = family.sample(4, seed=1), family.sample(4, seed=2)
    for diagonal in (False, True):
        rows = edge_rows(true, made, diagonal)
        for number, pair in enumerate(zip(true, made, strict=True)):
            truth, guess = (gln.to_numpy(graph).astype(bool) for graph in pair)
            if diagonal:
                truth, guess = truth | np.eye(6, dtype=bool), guess | np.eye(6, dtype=bool)
            assert rows["iou"][number] == pytest.approx((truth & guess).sum() / (truth | guess).sum())
            assert rows["accuracy"][number] == pytest.approx((truth == guess).mean())
    plain = gln.edge_scores(true, made, entries="all")
    assert edge_rows(true, made, False)["dice"].mean() == pytest.approx(plain["dice"])


def test_an_interval_is_about_two_standard_errors() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.1, 400)
    low, high = bootstrap(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * 0.1 / 20, rel=0.15)

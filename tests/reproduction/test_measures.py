"""Measures: scores of single graphs, their intervals, random structures, and cells of galleries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gln
from reproduction.cells import Places, cells_of, choose
from reproduction.data import Parts
from reproduction.last import Start
from reproduction.measures import MEASURES, Task, bootstrap, edge_rows
from reproduction.runner import run_cell
from reproduction.specs import Scale, columns, experiments


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_random_pairs_are_that_share_of_all_pairs(share: float) -> None:
    (pairs,) = Start(share, 0, 0).pairs([20])
    assert len(pairs) == round(share * 190)
    assert len({tuple(pair) for pair in pairs.tolist()}) == len(pairs)
    assert (pairs[:, 0] < pairs[:, 1]).all()


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

"""One training that serves several cells: other columns, or other numbers of steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch, as_graph
from gln.inference.predict import answers_of
from reproduction.baselines import GraphRNN, graphrnn
from reproduction.cells import Cell, Places, cells_of, choose
from reproduction.data import parts_of, split_parts
from reproduction.making import make_system
from reproduction.runner import run_cell
from reproduction.specs import Scale, Settings, columns, experiments

SURFACES = [name for name in columns() if name.startswith("surfaces-") and not name.endswith("-released")]


def quiet(line: str) -> None:
    pass


def one_cell(experiment: str, name: str) -> Cell:
    (cell,) = choose([experiment], "smoke", name)
    return cell


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.cpu() for name, weight in model.state_dict().items()}


def learned(settings: Settings) -> tuple[Any, ...]:
    """All that decides what a network learns, but the graphs."""
    steps = settings.trained_steps or settings.steps
    # A training whose last epoch counts may go on for another cell.
    fit = {name: value for name, value in settings.fit.items() if not (settings.last and name == "epochs")}
    return settings.model, fit, settings.loss, settings.standardise, steps


@pytest.mark.parametrize("scale", ["smoke", "full"])
def test_cells_that_share_a_folder_would_train_the_same_network(scale: Scale) -> None:
    places, known = Places(), {}
    for cell in choose([], scale, None):
        settings = cell.settings
        if settings.model and not settings.shipped and not settings.cannot:
            facts = (cell.protocol, settings.trained_on or cell.column, cell.seed, learned(settings))
            assert known.setdefault(cell.run_folder(places), facts) == facts
        else:
            assert settings.trained_on is None
            assert settings.trained_steps is None


def test_the_gln_of_all_kinds_serves_every_kind_of_ordered_surface() -> None:
    places = Places()
    for column in SURFACES:
        cell = one_cell("table-mmd", f"ordered/{column}/gln")
        every = column.rpartition("-")[0] + "-all"
        assert cell.settings.trained_on == every
        assert cell.run_folder(places) == replace(cell, column=every).run_folder(places)
        assert one_cell("table-mmd", f"ordered/{column}/stabilised").settings.trained_on is None


def test_one_training_serves_another_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(tmp_path)
    every, kind = (one_cell("table-mmd", f"ordered/surfaces-100-{end}/gln") for end in ("all", "torus"))
    first = run_cell(every, places, quiet)
    kept = {path: path.read_bytes() for path in every.run_folder(places).glob("*.safetensors")}
    monkeypatch.setattr(gln.training.loop.Loop, "run", None)  # who trains once more fails
    second = run_cell(kind, places, quiet)
    assert kept
    assert all(path.read_bytes() == before for path, before in kept.items())
    assert [path.name for path in places.runs("smoke").glob("ordered/*/*")] == ["gln"]
    for name in ("trained_on", "threshold", "training_seconds"):
        assert second["system"][name] == first["system"][name]
    assert second["system"]["trained_on"] == "surfaces-100-all"
    own = parts_of("smoke", "ordered", "surfaces-100-torus")
    assert second["family"] == str(own.family)
    model = gln.load(every.run_folder(places))
    assert model.threshold == first["system"]["threshold"]
    expected = gln.edge_scores(own.test, gln.predict(model, own.test), entries="all")
    assert second["scores"]["iou"] == pytest.approx(float(expected["iou"]))


def test_no_test_graph_was_learned_from() -> None:
    """Both families draw from one seed, so one of six graphs of a kind is also among those of all kinds."""
    kind = split_parts(parse_family("surfaces:points=9,kind=torus,order=ordered"), 100)
    every = split_parts(parse_family("surfaces:points=9,order=ordered"), 120)
    taught = kind.taught_by(every)

    def among(graph: Data, others: list[Data]) -> bool:
        return any(torch.equal(graph.pos, other.pos) for other in others)

    assert 0 < len(taught.test) < len(kind.test)
    assert taught.train == every.train
    assert taught.val == every.val
    assert taught.family == kind.family
    assert not [graph for graph in taught.test if among(graph, every.known)]
    left_out = [graph for graph in kind.test if not among(graph, taught.test)]
    assert all(among(graph, every.known) for graph in left_out)
    assert every.taught_by(every).test == every.test  # nothing is lost where the split is its own


def test_a_network_read_after_k_steps_is_one_forward_of_k_steps(tmp_path: Path) -> None:
    places = Places(tmp_path)
    cells = [cell for cell in cells_of(experiments()["figure-depth"], "smoke") if cell.protocol == "ordered"]
    cells = [cell for cell in cells if cell.row.startswith("gln-")]
    assert [cell.settings.steps for cell in cells] == list(range(1, 9))
    (folder,) = {cell.run_folder(places) for cell in cells}
    measured = {cell.settings.steps: run_cell(cell, places, quiet) for cell in (cells[2], cells[7], cells[0])}
    assert len({kept["system"]["training_seconds"] for kept in measured.values()}) == 1  # trained once
    model = gln.load(folder)
    test = [as_graph(graph) for graph in parts_of("smoke", "ordered", cells[0].column).test]
    assert model.config["steps"] == 8
    batch = GraphBatch.from_graphs(test)
    with torch.no_grad():
        whole = model.eval()(batch)
    for steps, kept in measured.items():
        assert steps is not None
        after = replace(whole, logits=whole.logits[:steps], states=whole.states[:steps])
        made = answers_of(after, test, model.threshold)
        expected = gln.edge_scores(test, made, entries="all")
        assert kept["scores"]["iou"] == pytest.approx(float(expected["iou"]))


def test_rows_of_other_steps_without_trained_steps_are_trained_apart() -> None:
    rows = [cell for cell in choose(["figure-depth"], "full", None) if cell.row.startswith("stabilised-")]
    assert len({cell.run_folder(Places()) for cell in rows}) == len(rows) == 8


def test_an_interrupted_graphrnn_goes_on_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphrnn, "CHECKPOINT_SECONDS", -1)
    cell = one_cell("table-mmd", "ordered/community-2/graphrnn")
    settings, parts = cell.settings, parts_of("smoke", "ordered", "community-2")
    whole, *_ = make_system(settings, parts, tmp_path / "whole")
    epoch, begun = GraphRNN._epoch, []

    def stop_at_the_second(*given: Any) -> float:
        begun.append(given[4])
        if begun == [0, 1]:
            raise KeyboardInterrupt
        return epoch(*given)

    monkeypatch.setattr(GraphRNN, "_epoch", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        make_system(settings, parts, tmp_path / "broken")
    resumed, *_ = make_system(settings, parts, tmp_path / "broken")
    again, *_ = make_system(settings, parts, tmp_path / "broken")
    assert begun == [0, 1, 1]  # the first epoch is not repeated, and a fit that ended is only read
    for model in (resumed, again):
        for name, weight in weights_of(whole.network_).items():
            assert torch.equal(weight, weights_of(model.network_)[name])


def test_a_fit_that_ended_after_other_epochs_is_not_passed_off_as_this_one(tmp_path: Path) -> None:
    settings = one_cell("table-mmd", "ordered/community-2/graphrnn").settings
    parts = parts_of("smoke", "ordered", "community-2")
    make_system(settings, parts, tmp_path)
    assert settings.baseline is not None
    longer = replace(settings, baseline=settings.baseline.replace("epochs=2", "epochs=3"))
    with pytest.raises(GLNError, match="began with epochs=2, now it is 3"):
        make_system(longer, parts, tmp_path)


def test_making_a_network_leaves_no_trace_in_the_random_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("the GPUs were seeded"))
    before = torch.random.get_rng_state()
    settings = one_cell("table-mmd", "ordered/community-2/stabilised").settings
    make_system(settings, parts_of("smoke", "ordered", "community-2"), tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())

"""The stream through a model: order, batches, bad items, scores."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.io import Item, ReadOptions, Skipped
from gln.models import GLN
from gln.workflows import predict_files as module
from gln.workflows.answers import SCORES, KnownEdges, Outcome, Window, answer_window
from gln.workflows.predict_files import Choice, Job, cut_windows, predict_files
from tests.workflows.items import item

torch.manual_seed(0)
MODEL = GLN(0, 2, width=8, pair_width=8, steps=2).eval()
MODEL.threshold = 0.5


def answers(items: list[Item], choice: Choice = Choice()) -> tuple[list[tuple[Item, Data]], list[Skipped]]:  # noqa: B008
    done = [answer_window(MODEL, window, choice) for window in cut_windows(items)]
    return [pair for one in done for pair in one.answers], [what for one in done for what in one.skipped]


def test_items_come_back_in_order_as_each_alone_would_be_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 4)
    items = [item(f"{n}.csv", nodes) for n, nodes in enumerate((9, 2, 30, 5, 1, 7, 30, 3, 12, 4))]
    pairs, skipped = answers(items, Choice(threshold=0.4, batch_size=3))
    assert not skipped
    assert [one.name for one, _ in pairs] == [one.name for one in items]
    for one, answer in pairs:
        alone = gln.predict(MODEL, one.graph, threshold=0.4)
        assert torch.equal(answer.edge_index, alone.edge_index)
        assert torch.allclose(answer.edge_prob, alone.edge_prob, atol=1e-6)


def test_what_does_not_fit_is_skipped_by_name_and_the_rest_goes_on() -> None:
    items = [
        item("a.csv"),
        item("wide.csv", width=3),
        item("t.csv#1"),
        item("t.csv#2", width=1),
        item("b.csv"),
    ]
    pairs, skipped = answers(items)
    assert [one.name for one, _ in pairs] == ["a.csv", "t.csv#1", "b.csv"]
    assert [str(one.path) for one in skipped] == ["wide.csv", "t.csv"]
    assert "3 positions" in skipped[0].reason
    assert skipped[1].reason.startswith("graph 2: it has 1 positions")


def test_what_fails_in_the_model_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = MODEL.forward

    def fail(batch: gln.GraphBatch, **options: object) -> object:
        if (batch.sizes == 7).any():
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        if (batch.sizes == 8).any():
            raise GLNError("eight is too many.")
        return forward(batch, **options)

    monkeypatch.setattr(MODEL, "forward", fail)
    pairs, skipped = answers([item("a", 5), item("b", 7), item("c", 8), item("d", 6)])
    assert [one.name for one, _ in pairs] == ["a", "d"]
    assert ["more memory" in skipped[0].reason, skipped[1].reason] == [True, "eight is too many."]


def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(MODEL, "forward", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        answers([item("a"), item("b")])


def test_an_input_that_fits_nowhere_is_refused_before_anything_runs() -> None:
    with pytest.raises(GLNError, match=r"None of the first 2 sets .* a\.csv: it has 3 positions"):
        answers([item("a.csv", width=3), item("b.csv", width=3)])


def test_scores_are_the_mean_over_labelled_graphs_however_they_are_windowed() -> None:
    items = [item(f"{n}", 6, edges=[[0, 1], [2, n % 3 + 3]] if n % 3 else None) for n in range(8)]
    pairs, _ = answers(items, Choice(threshold=0.3))
    outcome = Outcome()
    for part in (pairs[:1], pairs[1:5], pairs[5:]):
        one = Outcome(answers=part)
        one.score({})
        outcome.add(one)
    labelled = [(one.graph, answer) for one, answer in pairs if one.labelled]
    expected = gln.edge_scores(*map(list, zip(*labelled, strict=True)))
    assert outcome.labelled == len(labelled) == 5
    assert outcome.scores == pytest.approx({name: expected[name] for name in SCORES})


def write_points(path: Path, rows: int, header: str = "x,y") -> Path:
    lines = [
        ",".join(f"{0.1 * row + 0.37 * column * row % 1:.3f}" for column, _ in enumerate(header.split(",")))
        for row in range(rows)
    ]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_files_in_edges_out(tmp_path: Path) -> None:
    paths = [write_points(tmp_path / f"{n}.csv", n) for n in (4, 6, 5)]
    (tmp_path / "bad.csv").write_text("x,y\n1,2\n1,what\n")
    files = [*paths[:2], tmp_path / "bad.csv", paths[2]]
    outcome = predict_files(Job(MODEL, files, tmp_path / "out.csv", choice=Choice(threshold=0.0)))
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (outcome.graphs, outcome.edges) == (3, 6 + 15 + 10)
    assert list(dict.fromkeys(row["graph"] for row in rows)) == ["4.csv", "6.csv", "5.csv"]
    assert len(rows) == outcome.edges
    assert [one.path.name for one in outcome.skipped] == ["bad.csv"]
    assert outcome.skipped[0].reason.startswith("row 3")


def test_nodes_that_coincide_are_remarked_on_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 1)
    paths = [write_points(tmp_path / f"{n}.csv", n) for n in (4, 6, 5)]
    for path in paths[1:]:
        with path.open("a") as file:
            file.write("0,0\n0,0\n")  # where the first row is already
    said: list[str] = []
    predict_files(Job(MODEL, paths, tmp_path / "out.csv"), say=said.append)
    about = [text for text in said if "exactly" in text]
    assert about == [
        "3 of 8 nodes of 6.csv lie exactly on another node: such nodes cannot be told apart by their positions."
    ]


def test_nothing_is_written_when_nothing_could_be_read_or_on_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.csv").write_text("")
    with pytest.raises(GLNError, match="Nothing could be predicted"):
        predict_files(Job(MODEL, [tmp_path / "bad.csv"], tmp_path / "out.csv"))

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    paths = [write_points(tmp_path / "a.csv", 4), write_points(tmp_path / "b.csv", 4)]
    monkeypatch.setattr(module, "WINDOW", 1)
    monkeypatch.setattr(Outcome, "add", interrupt)  # after the first graph was written
    with pytest.raises(KeyboardInterrupt):
        predict_files(Job(MODEL, paths, tmp_path / "out.csv"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv", "bad.csv"]


@pytest.mark.parametrize("name", ["out.csv", "out.npz"])
def test_what_another_run_wrote_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    output, add = tmp_path / name, Outcome.add

    def written_meanwhile(self: Outcome, more: Outcome) -> None:
        output.write_text("another run's")
        add(self, more)

    monkeypatch.setattr(Outcome, "add", written_meanwhile)
    paths = [write_points(tmp_path / "a.csv", 4)]
    with pytest.raises(GLNError, match="exists"):
        predict_files(Job(MODEL, paths, output))
    assert output.read_text() == "another run's"
    predict_files(Job(MODEL, paths, output, force=True))
    assert output.read_bytes() != b"another run's"


def test_known_edges_stay_and_the_rest_is_the_models(tmp_path: Path) -> None:
    table = tmp_path / "known.csv"
    table.write_text("source,target\nb,a\na,b\n")
    one = item("points.csv", 4, ids=["a", "b", "c", "d"])
    known = KnownEdges(table, ReadOptions(), files=1)
    assert known.of(one).edges_once().tolist() == [[0, 1]]
    choice = Choice(threshold=1.0)  # so that the model itself adds nothing
    ((_, answer),) = answer_window(MODEL, Window(0, items=[one]), choice, known).answers
    assert answer.edge_index.tolist() == [[0, 1], [1, 0]]
    assert answer.edge_prob.tolist() == [1, 1]
    assert answer.num_edges == gln.check_graph(answer).num_edges

    ((_, all_),) = answer_window(MODEL, Window(0, items=[one]), Choice(threshold=0.0), known).answers
    expected = gln.predict(MODEL, one.graph, threshold=0.0)
    assert torch.equal(all_.edge_index, expected.edge_index)  # sorted, no edge twice
    changed = (all_.edge_prob != expected.edge_prob).nonzero()[:, 0].tolist()
    assert changed == [0, 3]  # 0 to 1 and 1 to 0


def test_known_edges_that_do_not_say_of_which_graph_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "known.csv"
    table.write_text("source,target\n0,1\n")
    with pytest.raises(GLNError, match="no graph column"):
        KnownEdges(table, ReadOptions(), files=2)
    paths = [write_points(tmp_path / "a.csv", 4)]
    outcome = predict_files(Job(MODEL, paths, tmp_path / "out.csv", known=table))
    assert (outcome.graphs, outcome.labelled) == (1, 0)
    (tmp_path / "others.csv").write_text("graph,source,target\nb.csv,0,1\n")
    with pytest.raises(GLNError, match="holds no edge of any"):
        predict_files(Job(MODEL, paths, tmp_path / "other.csv", known=tmp_path / "others.csv"))
    (tmp_path / "wrong.csv").write_text("source,target\n0,99\n")
    with pytest.raises(GLNError, match="99"):
        predict_files(Job(MODEL, paths, tmp_path / "other.csv", known=tmp_path / "wrong.csv"))
    assert not (tmp_path / "other.csv").exists()


def test_classes_that_training_never_saw_are_named_once(tmp_path: Path) -> None:
    model = GLN(in_channels=11, pos_channels=3, width=8, pair_width=8, steps=1)
    model.training_facts = {"noise": {"x": {"mean": [0.5, 0.5, *[0.0] * 9], "std": [0.5, 0.5, *[0.0] * 9]}}}
    for name in "ab":
        (tmp_path / f"{name}.xyz").write_text("3\n\nH 0 0 0\nSi 1 0 0\nCl 0 1 0\n")
    said: list[str] = []
    predict_files(Job(model, sorted(tmp_path.glob("*.xyz")), tmp_path / "out.csv"), say=said.append)
    assert [text for text in said if "never" in text] == ["never seen in training: Cl, other elements"]

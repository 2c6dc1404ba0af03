"""Files, runs and predictions become views of the graphs they hold."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import gln
from gln.errors import GLNError
from gln.graphs import save_graphs
from gln.graphs.split import judged_part
from gln.io import ReadOptions
from gln.io.reading import Predictions
from gln.seeds import TEST_SEED
from gln.workflows import silent
from gln.workflows.predict_files import Job
from gln.workflows.runs import noting_data
from gln.workflows.views import View, add_predictions, family_views, file_views, job_items, run_views, watch
from tests.commands.test_train import write_graphs
from tests.conftest import run
from tests.viewing import decoding


def ignore(*_: object) -> None:
    pass


def read(*words: str | Path, count: int = 99) -> list[View]:
    return list(islice(file_views([str(word) for word in words], ReadOptions(), ignore, ignore), count))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    model = gln.GLN(pos_channels=2, width=8, pair_width=8, steps=2).eval()
    model.threshold = 0.45
    return model


@pytest.fixture
def predict(model: nn.Module, tmp_path: Path) -> Callable[..., Path]:
    """``gln predict`` with the model."""
    gln.save(model, tmp_path / "model")

    def predicted(table: Path, output: str, *flags: str) -> Path:
        assert (
            run(
                "predict",
                str(tmp_path / "model"),
                str(table),
                "-o",
                str(tmp_path / output),
                *flags,
            )
            == 0
        )
        return tmp_path / output

    return predicted


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five graphs of named nodes, with their edges."""
    nodes, edges = ["graph,id,x,y"], ["graph,source,target"]
    for number, graph in enumerate(gln.family("delaunay", points=7).sample(5)):
        nodes += [f"g{number},=<b>{node}</b>,{x},{y}" for node, (x, y) in enumerate(graph.pos.tolist())]
        edges += [f"g{number},=<b>{i}</b>,=<b>{j}</b>" for i, j in graph.edge_index.T.tolist() if i < j]
    (tmp_path / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (tmp_path / "nodes.edges.csv").write_text("\n".join(edges) + "\n")
    return tmp_path / "nodes.csv"


def test_files_are_read_with_their_names_labels_and_edges(table: Path) -> None:
    views = read(table, count=3)
    graphs = gln.family("delaunay", points=7).sample(3)
    assert [view.name for view in views] == [f"g{number}" for number in range(3)]
    assert [view.full for view in views] == [f"nodes.csv#g{number}" for number in range(3)]
    for view, graph in zip(views, graphs, strict=True):
        assert view.labelled
        assert view.labels is not None
        assert list(view.labels) == [f"=<b>{node}</b>" for node in range(7)]
        assert torch.equal(view.graph.edge_index, graph.edge_index)


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_predictions_come_back_as_they_were_written(
    table: Path, model: nn.Module, predict: Callable[..., Path], suffix: str
) -> None:
    views = add_predictions(read(table), predict(table, f"out{suffix}"))
    answers = gln.predict(model, [view.graph for view in views])
    for view, answer in zip(views, answers, strict=True):
        assert view.seen is not None
        once = answer.edge_index[0] < answer.edge_index[1]
        order = np.lexsort(view.seen.pairs.T[::-1])
        assert view.seen.pairs[order].tolist() == answer.edge_index[:, once].T.tolist()
        assert view.seen.chances[0, order] == pytest.approx(answer.edge_prob[once].numpy(), abs=1e-5)
        assert 0.44 <= view.seen.threshold <= view.seen.chances.min()


def test_an_archive_of_predictions_is_shown_on_its_own(table: Path, predict: Callable[..., Path]) -> None:
    output = predict(table, "out.npz")
    views = read(output)
    assert [view.name for view in views] == Predictions(output).names
    for view, other in zip(views, add_predictions(read(table), output), strict=True):
        assert view.seen is not None
        assert other.seen is not None
        assert not view.labelled
        assert np.array_equal(view.seen.pairs, other.seen.pairs)
        assert torch.equal(view.graph.pos, other.graph.pos)


def test_stored_graphs_are_shown(tmp_path: Path, model: nn.Module) -> None:
    truths = gln.family("delaunay", points=5).sample(2)
    save_graphs(truths, tmp_path / "true.safetensors")
    save_graphs(gln.predict(model, truths), tmp_path / "soft.safetensors")
    assert [view.labelled for view in read(tmp_path / "true.safetensors")] == [True, True]
    for view in read(tmp_path / "soft.safetensors"):
        assert view.seen is not None
        assert len(view.seen.pairs) == view.graph.num_edges // 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "the .csv or .npz"),
        ("a.csv", "source,target\n0,1\n", "graph, source, target, probability"),
        ("a.csv", "graph,source,target,probability\nnodes.csv#g0,0,1\n", "row 2 has 3 cells; expected 4"),
        ("a.csv", "graph,source,target,probability\nother,0,1,0.5\n", "no graph 'g0'"),
        (
            "a.csv",
            "graph,source,target,probability\n" + "".join(f"nodes.csv#g{n},0,1,0.5\n" for n in range(5)),
            "'0' is not a node of graph 'nodes.csv#g0'",
        ),
        (
            "a.csv",
            "graph,source,target,probability\n"
            + "".join(f"nodes.csv#g{n},=<b>0</b>,=<b>1</b>,5\n" for n in range(5)),
            "outside 0 to 1",
        ),
    ],
)
def test_other_predictions_are_refused(
    table: Path, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(GLNError, match=message):
        add_predictions(read(table), tmp_path / name)


def test_a_table_of_predictions_alone_is_no_graph(table: Path, predict: Callable[..., Path]) -> None:
    output = predict(table, "out.csv")
    with pytest.raises(GLNError, match="--predicted"):
        read(output)


def test_a_run_says_what_it_learned_from(tmp_path: Path) -> None:
    with noting_data(tmp_path, ["delaunay:points=9"], 12, 3, None):
        pass
    expected = family_views("delaunay:points=9", 2, TEST_SEED)
    views = run_views(tmp_path, 2, TEST_SEED, ignore, ignore)
    assert [view.name for view in views] == [view.name for view in expected]
    assert torch.equal(views[1].graph.pos, expected[1].graph.pos)


def test_a_run_that_was_interrupted_says_so_too_and_one_that_failed_does_not(tmp_path: Path) -> None:
    for error, noted in ((ValueError, False), (KeyboardInterrupt, True)):
        with pytest.raises(error), noting_data(tmp_path, ["delaunay"], None, 0, None):
            raise error
        assert (tmp_path / "data.json").exists() == noted


def test_a_run_of_unknown_origin_is_named(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="does not say what it learned from"):
        run_views(tmp_path, 2, 0, ignore, ignore)


@pytest.mark.parametrize(
    "choice", [{}, {"threshold": 0.5}, {"steps": 1}, {"top_k": 2}, {"known": Path("known.csv")}]
)
def test_the_page_of_a_prediction_shows_the_edges_that_were_written(
    table: Path, tmp_path: Path, predict: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, choice: dict
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("known.csv").write_text("graph,source,target\ng1,=<b>0</b>,=<b>6</b>\n")
    flags = [word for name, value in choice.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    lines = predict(table, "out.csv", "--view", "a.html", *flags).read_text().splitlines()[1:]
    data = decoding.data_of(tmp_path / "a.html")
    seen = []
    for view in data["views"]:
        chosen = decoding.levels(view)[-1] >= decoding.cut(data, view, view["own"])
        seen += [
            (view["name"], view["labels"][a], view["labels"][b])
            for a, b in decoding.pairs(view)[chosen].tolist()
        ]
    assert seen == [tuple(line.replace("'=", "=").split(",")[:3]) for line in lines]
    assert data["views"][0]["steps"] == (1 if {"top_k", "known", "steps"} & set(choice) else 3)


def test_the_page_of_a_prediction_is_bounded(tmp_path: Path, model: nn.Module) -> None:
    write_graphs(tmp_path / "data", 22, points=5)
    (tmp_path / "data" / "bad.csv").write_text("x,y\n1,what\n")
    said: list[str] = []
    job = Job(model, sorted((tmp_path / "data").iterdir()), tmp_path / "out.csv")
    assert len(job_items(job, Path("a.html"), said.append)) == 20
    assert said == ["a.html shows 20 of the graphs: at most the first 20, with up to 50,000 nodes together."]


def test_a_page_that_would_be_too_large_is_refused_before_anything_is_predicted(
    tmp_path: Path, model: nn.Module
) -> None:
    np.save(tmp_path / "points.npy", np.random.default_rng(0).random((50_001, 2)))
    job = Job(model, [tmp_path / "points.npy"], tmp_path / "out.csv")
    with pytest.raises(GLNError, match=r"--view a.html for 50,001 nodes; .* up to 50,000"):
        job_items(job, Path("a.html"), silent)


@pytest.mark.parametrize("value", [1, 2])
def test_of_a_graph_that_was_learned_from_in_part_only_judged_pairs_are_shown(
    value: int, model: nn.Module
) -> None:
    graph = gln.family("delaunay", points=20).graphs(1)[0]
    (whole,) = watch(model, [View(graph)])
    graph.judged = value * (torch.arange(20) < 8)
    (view,) = watch(model, [View(graph)])
    assert view.graph.num_nodes == 20
    truth = judged_part(graph, graph.judged)
    assert view.graph.num_edges == truth.num_edges < graph.num_edges
    assert whole.seen is not None
    assert view.seen is not None
    counts = graph.judged.numpy()[whole.seen.pairs].sum(1) >= 2
    assert np.array_equal(view.seen.pairs, whole.seen.pairs[counts])
    assert np.array_equal(view.seen.chances, whole.seen.chances[:, counts])

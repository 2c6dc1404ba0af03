"""A page holds what was predicted: every decision exactly, every text as text, in one small file."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.viewing import Seen, View, views_of, watch, write_page
from gln.viewing.pages import FEW_LEVELS, LEVELS, check_page, cut, offered, pack, to_levels
from gln.viewing.style import DARK_PAGE, LIGHT_PAGE
from gln.workflows.views import within_reach
from tests.viewing import decoding

NASTY = "</script><script>window.hacked = 1</script><!-- & \u2028 {{data}} \"'"


@given(
    own=st.floats(0.01, 1),
    chances=st.lists(st.floats(0, 1, width=32), min_size=1),
    levels=st.sampled_from([LEVELS, FEW_LEVELS]),
)
def test_every_offered_threshold_decides_as_float32_does(own: float, chances: list, levels: int) -> None:
    thresholds = offered([own])
    assert np.float32(own) in thresholds
    assert (np.diff(thresholds) > 0).all()
    around = [np.nextafter(thresholds, np.float32(0)), thresholds, np.nextafter(thresholds, np.float32(1))]
    values = np.concatenate([np.array(chances, np.float32), *around])
    stored = to_levels(values, thresholds, levels).astype(int)
    for threshold in thresholds:
        expected = (torch.from_numpy(values) >= float(threshold)).numpy()
        assert np.array_equal(stored >= cut(threshold, levels), expected)
    assert np.abs(stored / levels - values).max() <= 2 / levels
    assert stored.max() <= levels


def test_a_page_holds_the_model_after_every_step(tmp_path: Path) -> None:
    model = gln.GLN(pos_channels=2, width=8, pair_width=8, steps=3).eval()
    model.threshold = 0.47
    graphs = gln.family("delaunay", points=(8, 14)).sample(4)
    page = write_page(tmp_path / "a.html", watch(model, views_of(graphs)))
    data = decoding.data_of(page)
    after = [gln.predict(model, graphs, threshold=0, steps=steps) for steps in (1, 2, 3)]
    for number, (view, graph) in enumerate(zip(data["views"], graphs, strict=True)):
        pairs, levels = decoding.pairs(view), decoding.levels(view)
        assert view["steps"] == 4
        assert not levels[0].any()
        for step in (1, 2, 3):
            answer = after[step - 1][number]
            soft = torch.zeros(graph.num_nodes, graph.num_nodes)
            soft[answer.edge_index[0], answer.edge_index[1]] = answer.edge_prob
            expected = soft[pairs[:, 0], pairs[:, 1]].numpy()
            assert np.abs(levels[step] / view["levels"] - expected).max() <= 2 / LEVELS
            listed = np.zeros(soft.shape, dtype=bool)
            listed[pairs[:, 0], pairs[:, 1]] = True
            assert soft.numpy()[~listed & np.triu(np.ones(soft.shape, bool), 1)].max(initial=0) < 0.01
        joined = {tuple(pair) for pair in graph.edge_index.T.tolist()}
        assert [tuple(pair) in joined for pair in pairs.tolist()] == decoding.true(view).tolist()
        assert data["thresholds"][view["own"]] == np.float32(0.47)


def test_a_page_holds_kinds(tmp_path: Path) -> None:
    edges = {"edges": [[0, 1], [2, 1]], "edge_type": [1, 0], "edge_weight": [2, 3], "directed": True}
    truth = make_graph(pos=[[0, 0], [1, 0], [0, 1]], node_type=[1, 0, 0], **edges)
    truth.edge_type_names = ("in", "out")
    guess = truth.clone()
    guess.edge_index = torch.tensor([[0, 1], [1, 2]])  # the second edge the other way round
    guess.edge_prob = torch.tensor([0.9, 0.8])
    (view,) = decoding.data_of(write_page(tmp_path / "a.html", [View(truth, seen=Seen.last(guess, 0.5))]))[
        "views"
    ]
    assert view["directed"]
    assert decoding.pairs(view).tolist() == [[0, 1], [1, 2], [2, 1]]
    assert decoding.array(view["types"], "u1").tolist() == [1, 0, 0]
    assert decoding.array(view["true_types"], "u1").tolist() == [1, 0, 0]
    assert decoding.array(view["weights"], "<f4").tolist() == [2, 3, 0]
    assert decoding.array(view["true_weights"], "<f4").tolist() == [2, 0, 3]
    assert decoding.array(view["node_types"], "u1").tolist() == [1, 0, 0]
    assert (view["type_names"], view["node_names"]) == (["in", "out"], ["type 0", "type 1"])
    (plain,) = decoding.data_of(
        write_page(tmp_path / "b.html", views_of([gln.family("delaunay").sample(1)[0]]))
    )["views"]
    assert not {"types", "weights", "directed", "node_types", "dashes"} & plain.keys()


@pytest.mark.parametrize("threshold", [None, 0.02, 0.3, 0.5, 0.58, 0.99])
def test_the_edges_of_a_page_are_those_of_predict(tmp_path: Path, threshold: float | None) -> None:
    model = gln.load("delaunay")
    (graph,) = gln.family("delaunay", points=30).sample(1, seed=3)
    data = decoding.data_of(
        write_page(tmp_path / "a.html", watch(model, views_of([graph]), threshold=threshold))
    )
    (view,) = data["views"]
    chosen = decoding.levels(view)[-1] >= decoding.cut(data, view, view["own"])
    answer = gln.predict(model, graph, threshold=threshold)
    once = answer.edge_index[0] < answer.edge_index[1]
    assert decoding.pairs(view)[chosen].tolist() == answer.edge_index[:, once].T.tolist()


def test_a_structure_to_begin_with_is_the_first_step() -> None:
    (graph,) = gln.family("delaunay", points=6).sample(1)
    model = gln.PaperGLN(nodes=6, in_channels=2, initial="full").eval()
    (view,) = watch(model, views_of([graph]))
    assert view.seen is not None
    assert (view.seen.chances[0] == 1).all()


def worst(nodes: int, steps: int) -> View:
    """All pairs predicted, at any probability, which no rule can shorten."""
    pairs = np.stack(np.triu_indices(nodes, 1), axis=1)
    rng = np.random.default_rng(0)
    chances = (0.5 + 0.5 * rng.random((steps, len(pairs)))).astype(np.float32)
    graph = make_graph(pos=rng.random((nodes, 3)), edges=pairs[::40])
    return View(graph, "all pairs", seen=decoding.seen_of(pairs, chances, 0.5))


def test_400_nodes_take_at_most_1_5_megabytes_with_all_steps(tmp_path: Path) -> None:
    view = worst(400, 9)
    page = write_page(tmp_path / "a.html", [view])
    assert page.stat().st_size <= 1_500_000
    data = decoding.data_of(page)
    packed = data["views"][0]
    assert view.seen is not None
    for index in (packed["own"], packed["own"] + 20):
        chosen = decoding.levels(packed) >= decoding.cut(data, packed, index)
        assert chosen.sum() == (view.seen.chances >= np.float32(data["thresholds"][index])).sum()


def test_whatever_a_file_says_stays_text(tmp_path: Path) -> None:
    graph = make_graph(pos=[[0, 0], [1, 1]], edges=[[0, 1]])
    page = write_page(tmp_path / "a.html", [View(graph, NASTY, labels=[NASTY, "b"])], title=NASTY)
    text = page.read_text()
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<!--" not in text
    data = decoding.data_of(page)
    assert data["title"] == data["views"][0]["name"] == data["views"][0]["labels"][0] == NASTY


def test_the_policy_allows_this_program_and_nothing_else(tmp_path: Path) -> None:
    text = write_page(tmp_path / "a.html", views_of([make_graph(num_nodes=1)])).read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', text)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not re.findall(r"https?://", policy)
    for tag in ("script", "style"):
        (inline,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    for colour in (*LIGHT_PAGE.values(), *DARK_PAGE.values()):
        assert colour in text


@pytest.mark.parametrize("width", [None, 1, 2, 3, 5])
def test_nodes_of_any_width_have_a_place(tmp_path: Path, width: int | None) -> None:
    pos = None if width is None else np.random.default_rng(0).random((4, width))
    graph = make_graph(pos=pos, edges=[[0, 1], [2, 3]], num_nodes=4)
    (view,) = decoding.data_of(write_page(tmp_path / "a.html", views_of([graph])))["views"]
    assert view["dimensions"] == (3 if width in (3, 5) else 2)
    where = decoding.array(view["pos"], "<f4").reshape(4, view["dimensions"])
    assert np.isfinite(where).all()
    assert view.get("placed_by") == ("true edges" if width is None else None)
    if width in (2, 3):  # turned, if at all: distances stay
        apart = np.linalg.norm(where[:, None] - where[None], axis=-1)
        assert apart == pytest.approx(np.linalg.norm(pos[:, None] - pos[None], axis=-1), abs=1e-5)


@pytest.mark.parametrize(
    ("features", "chance", "placed_by"),
    [(1, 0.9, "predicted edges"), (1, 0.1, "features"), (0, 0.1, "order")],
)
def test_nodes_without_positions_are_placed_by_what_there_is(
    tmp_path: Path, features: int, chance: float, placed_by: str
) -> None:
    graph = make_graph(x=np.arange(4.0)[:, None][:, :features], num_nodes=4)
    seen = decoding.seen_of(np.array([[0, 1]]), np.array([[chance]], np.float32))
    (view,) = decoding.data_of(write_page(tmp_path / "a.html", [View(graph, labelled=False, seen=seen)]))[
        "views"
    ]
    assert view["placed_by"] == placed_by
    assert np.isfinite(decoding.array(view["pos"], "<f4")).all()


def test_faces_are_right_missing_or_too_many() -> None:
    pos = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    true = torch.tensor([[0, 1, 2], [0, 2, 3]]).T
    graph = Graph(4, pos=pos, edge_index=torch.tensor([[0, 1], [1, 0]]), face=true)

    def faces(view: View) -> list[list[list[int]]]:
        packed = pack([view], "")["views"][0]
        corners = np.frombuffer(base64.b64decode(packed["faces"]), "<u2").reshape(-1, 3)
        cuts = np.cumsum(packed["face_counts"])
        assert cuts[-1] == len(corners)
        return [part.tolist() for part in np.split(corners, cuts[:-1])]

    assert faces(View(graph)) == [[[0, 1, 2], [0, 2, 3]], [], []]
    made = np.array([[2, 0, 1], [1, 2, 3]])
    assert faces(View(graph, faces=made)) == [[[2, 0, 1]], [[0, 2, 3]], [[1, 2, 3]]]
    assert faces(View(graph, labelled=False, faces=made)) == [made.tolist(), [], []]


def test_an_image_lies_below_its_graph(tmp_path: Path) -> None:
    (graph,) = gln.family("figures", side=6).sample(1)
    (view,) = decoding.data_of(write_page(tmp_path / "a.html", views_of([graph])))["views"]
    colours = decoding.array(view["image"], "u1").reshape(-1, 3)
    assert colours / 255 == pytest.approx(graph.x.numpy(), abs=0.51 / 255)


def test_a_method_without_steps_is_one_step() -> None:
    class Everything:
        def predict(self, points: Data) -> Data:
            return make_graph(pos=points.pos, edges=[[0, 1], [1, 2], [0, 2]])

    (view,) = watch(Everything(), views_of([make_graph(pos=[[0, 0], [1, 0], [0, 1]], edges=[[0, 1]])]))
    assert view.seen is not None
    assert view.seen.chances.tolist() == [[1, 1, 1]]


def test_unlikely_pairs_are_left_out_but_true_edges_are_not(tmp_path: Path) -> None:
    graph = make_graph(pos=np.eye(4)[:, :2], edges=[[0, 1], [2, 3]])
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    seen = decoding.seen_of(pairs, np.array([[0.001, 0.005, 0.3], [0.002, 0.009, 0.0]], np.float32))
    (view,) = decoding.data_of(write_page(tmp_path / "a.html", [View(graph, seen=seen)]))["views"]
    assert decoding.pairs(view).tolist() == [[0, 1], [1, 2], [2, 3]]
    assert decoding.true(view).tolist() == [True, False, True]


def test_without_truth_nothing_is_called_true(tmp_path: Path) -> None:
    answer = Graph(3, edge_index=torch.tensor([[0, 1], [1, 0]]), edge_prob=torch.tensor([0.7, 0.7]))
    view = View(make_graph(num_nodes=3, edges=[[1, 2]]), labelled=False, seen=Seen.last(answer, 0.5))
    (packed,) = decoding.data_of(write_page(tmp_path / "a.html", [view]))["views"]
    assert packed["truth"] is False
    assert not decoding.true(packed).any()
    assert decoding.pairs(packed).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("path", "views", "message"),
    [("a.png", views_of([make_graph(num_nodes=1)]), ".html"), ("a.html", [], "at least one")],
)
def test_an_impossible_page_is_refused(tmp_path: Path, path: str, views: list, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        write_page(tmp_path / path, views)
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.html").mkdir()
    for path in (tmp_path / "file" / "a.html", tmp_path / "folder.html"):
        with pytest.raises(GLNError, match="cannot be written"):
            check_page(path)
    assert check_page(tmp_path / "new" / "folder" / "a.html").suffix == ".html"


def test_what_is_too_large_is_said() -> None:
    views = views_of([make_graph(num_nodes=5), make_graph(num_nodes=9)])
    said: list[str] = []
    assert within_reach(views, said.append, largest=6) == views[:1]
    assert said == ["1 graph is not on the page: more than 6 nodes or 500,000 edges."]
    with pytest.raises(GLNError, match="up to 4 nodes and 500,000 edges, but the smallest here has 5 nodes"):
        within_reach(views, said.append, largest=4)
    (dense,) = views_of([make_graph(num_nodes=4, edges=[[0, 1], [1, 2], [2, 3]])])
    with pytest.raises(GLNError, match="has 4 nodes and 3 edges"):
        within_reach([dense], said.append, most=2)


def test_names_for_other_graphs_are_refused() -> None:
    with pytest.raises(GLNError, match="1 graphs and 2 names"):
        views_of([make_graph(num_nodes=1)], ["a", "b"])


def test_views_of_one_page_keep_their_own_thresholds(tmp_path: Path) -> None:
    first = worst(5, 2)
    assert first.seen is not None
    second = replace(first, seen=replace(first.seen, threshold=0.6173))
    data = decoding.data_of(write_page(tmp_path / "a.html", [first, second]))
    assert [data["thresholds"][view["own"]] for view in data["views"]] == [0.5, float(np.float32(0.6173))]

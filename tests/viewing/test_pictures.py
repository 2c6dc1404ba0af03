"""Pictures show every node and every edge, for any graph."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import as_graph, make_graph
from gln.viewing import draw_errors, draw_graph, save_gallery, save_steps
from gln.viewing.sheets import Sheet
from gln.viewing.style import EDGE, EXTRA, INK, MISSING, ON_IMAGE, OTHER_TYPE, PLAIN, RIGHT, WRONG, Look
from tests.conftest import graphs


@pytest.mark.parametrize("width", [None, 1, 2, 3, 5])
def test_every_edge_and_node_is_drawn_for_any_width_of_pos(width: int | None) -> None:
    @settings(max_examples=8)
    @given(graph=graphs(pos_width=width))
    def check(graph: Data) -> None:
        ax = Figure().add_subplot()
        draw_graph(graph, ax)
        dots, lines = ax.collections
        assert len(lines.get_segments()) == graph.num_edges // 2
        assert len(dots.get_offsets()) == graph.num_nodes

    check()


def test_figures_are_drawn_over_their_image() -> None:
    ax = Figure().add_subplot()
    (graph,) = parse_family("figures:side=6").graphs(1)
    draw_graph(graph, ax)
    (image,) = ax.images
    column, row = graph.pos[7].int().tolist()
    assert image.get_array()[row, column].tolist() == pytest.approx(graph.x[7].clip(0, 1).tolist())


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_a_gallery_is_written_in_the_format_of_its_suffix(tmp_path: Path, kind: str) -> None:
    path = save_gallery([make_graph(pos=[[0, 0], [1, 1]], edges=[[0, 1]])], tmp_path / f"a.{kind}")
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"%PDF-", b"<?xml")


def test_an_unknown_format_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="png"):
        save_gallery([make_graph(num_nodes=1)], tmp_path / "a.bmp")
    assert not list(tmp_path.iterdir())


def test_missing_and_extra_edges_are_counted_and_drawn() -> None:
    pos = [[0, 0], [1, 0], [0, 1]]
    predicted, truth = (
        make_graph(pos=pos, edges=[[0, 1], [1, 2]]),
        make_graph(pos=pos, edges=[[0, 1], [0, 2]]),
    )
    ax = Figure().add_subplot()
    draw_graph(predicted, ax)
    assert draw_errors(predicted, truth, ax) == (1, 1)
    ((_, missing), (_, _, extra)) = (drawn(ax, kind) for kind in WRONG)
    assert missing.get_segments()[0].tolist() == [[0, 0], [0, 1]]
    assert extra.get_segments()[0].tolist() == [[1, 0], [0, 1]]


def drawn(ax: Axes, kind: str) -> list[LineCollection]:
    """The lines of one kind of edge, the lowest first."""
    lines = [one for one in ax.collections if one.get_label() == kind]
    return sorted(lines, key=lambda one: one.get_zorder())  # type: ignore[arg-type,return-value]


def nodes_joined(graph: Data) -> set[tuple[int, int]]:
    return {(a, b) for a, b in graph.edge_index.T.tolist() if a < b}


def a_guess(spec: str, missing: int = 1, extra: int = 2) -> tuple[Data, Data]:
    """A guess with so many edges missing and extra, and the truth."""
    (truth,) = parse_family(spec).graphs(1)
    joined = nodes_joined(truth)
    other = [pair for pair in combinations(range(truth.num_nodes), 2) if pair not in joined]
    guess = truth.clone()
    edges = [*sorted(joined)[missing:], *other[:extra]]
    guess.edge_index = make_graph(edges=edges, num_nodes=truth.num_nodes).edge_index
    return guess, truth


FAMILIES = ["delaunay:points=8", "surfaces:points=16", "figures:side=5", "community:size=4"]


@pytest.mark.parametrize("spec", FAMILIES)
def test_wrong_edges_lie_above_right_ones_and_every_casing_below_all_colours(spec: str) -> None:
    guess, truth = a_guess(spec)
    sheet = Sheet(1, "", None, None)
    sheet.draw(guess, truth, "")
    (ax,) = sheet.figure.axes
    right, missing, extra = (drawn(ax, kind) for kind in (RIGHT, *WRONG))
    together = nodes_joined(guess) & nodes_joined(truth)
    for lines, count in ((right, len(together)), (missing, 1), (extra, 2)):
        for line in lines:
            np.testing.assert_array_equal(line.get_segments(), lines[0].get_segments())
            assert len(line.get_segments()) == count
        widths = [line.get_linewidths()[0] for line in lines]
        assert widths == sorted(widths, reverse=True)
    colours = [lines[-1].get_zorder() for lines in (missing, extra)]
    casings = [line.get_zorder() for lines in (missing, extra) for line in lines[:-1]]
    assert casings
    assert right[-1].get_zorder() < min(casings) <= max(casings) < min(colours)


@pytest.mark.parametrize("look", [PLAIN, ON_IMAGE])
def test_kinds_of_edges_are_told_apart_without_colours(look: Look) -> None:
    """By dashes and by what lies below; and on an image there is dark and light in every edge."""
    assert len({tuple((line.width, line.dashed) for line in lines) for lines in look.values()}) == len(look)
    assert [lines[-1].dashed for lines in look.values()] == [False, True, False, False]
    if look is ON_IMAGE:
        assert all({INK, "white"} <= {line.colour for line in lines} for lines in look.values())


@pytest.mark.parametrize("spec", FAMILIES)
@pytest.mark.parametrize("wrong", ["", "missing", "extra", "missing extra"])
def test_the_legend_names_the_kinds_of_edges_that_are_there(spec: str, wrong: str) -> None:
    guess, truth = a_guess(spec, int("missing" in wrong), int("extra" in wrong))
    sheet = Sheet(1, "", 3.3, None)
    sheet.draw(guess, truth, "")
    sheet.add_legend()
    (legend,) = sheet.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [RIGHT, *wrong.split()]
    assert all(text.get_fontsize() <= sheet.text for text in legend.get_texts())
    (ax,) = sheet.figure.axes
    assert {one.get_label() for one in ax.collections} & {RIGHT, *WRONG} == {RIGHT, *wrong.split()}


TYPED = make_graph(
    pos=[[0, 0], [1, 0], [0, 1], [2, 2]],
    edges=[[0, 1], [1, 2], [3, 2]],
    edge_type=[0, 2, 2],
    edge_weight=[1, 2, 4],
    node_type=[0, 1, 1, 0],
    directed=True,
)


def test_kinds_are_drawn_and_named() -> None:
    sheet, graph = Sheet(1, "", 3.3, None), as_graph(TYPED)
    graph.edge_type_names = ("single", "double", "triple")
    sheet.draw(graph, None, "")
    sheet.add_legend()
    (legend,) = sheet.figure.legends
    words = ["single", "triple", "node type 0", "node type 1", "the wider, the larger the weight"]
    assert [text.get_text() for text in legend.get_texts()] == words
    (ax,) = sheet.figure.axes
    (lines,) = [one for one in ax.collections if isinstance(one, LineCollection)]
    widths = lines.get_linewidths()
    assert widths[0] < widths[1] < widths[2]  # as the weights
    colours, dashes = lines.get_colors(), lines.get_linestyles()
    assert tuple(colours[0]) != tuple(colours[1])
    assert dashes[0] != dashes[1]
    (arrows,) = [one for one in ax.collections if isinstance(one, PolyCollection)]
    for head, (start, end) in zip(arrows.get_paths(), graph.pos.numpy()[graph.edges_once()], strict=True):
        tip, back, other = head.vertices[:3]
        assert np.dot(tip - (back + other) / 2, end - start) > 0  # it points to the end


def test_edges_of_another_type_stand_out() -> None:
    truth = as_graph(TYPED)
    guess = truth.clone()
    guess.edge_type = 2 - guess.edge_type
    sheet = Sheet(1, "", 3.3, None)
    assert sheet.draw(guess, truth, "") == (0, 0)
    (ax,) = sheet.figure.axes
    assert "3 of another type" in ax.get_title().replace("\n", " ")
    marked = [one for one in ax.collections if one.get_label() == OTHER_TYPE]
    assert marked
    assert all(len(one.get_segments()) == 3 for one in marked)


def test_a_row_is_as_high_as_its_highest_drawing_and_nothing_is_cut(tmp_path: Path) -> None:
    flat = [make_graph(pos=[[0, 0], [4, height]], edges=[[0, 1]]) for height in (0, 2, 3, 40)]
    sheet = Sheet(4, "title", 4.0, 2)
    for graph in flat:
        sheet.draw(graph, None, "caption")
    sheet.write(tmp_path / "a.svg")
    boxes = [ax.get_window_extent() for ax in sheet.figure.axes]
    shapes = [box.height / box.width for box in boxes]
    assert shapes == pytest.approx([2.32 / 4.32, 2.32 / 4.32, 1, 1], rel=0.01)
    panel = 2.0 * sheet.figure.dpi
    for ax, box, graph in zip(sheet.figure.axes, boxes, flat, strict=True):
        assert 0.9 * panel < box.width <= panel
        for point in graph.pos.tolist():
            assert box.contains(*ax.transData.transform(point))


def test_captions_do_not_touch_what_is_below_them(tmp_path: Path) -> None:
    guess, truth = a_guess("surfaces:points=16")
    sheet = Sheet(4, "title", 3.3, 2)
    for _ in range(4):
        sheet.draw(guess, truth, "a surface: 16 nodes")
    sheet.add_legend()
    sheet.write(tmp_path / "a.svg")
    boxes = [ax.get_window_extent() for ax in sheet.figure.axes]
    words = [ax.title.get_window_extent() for ax in sheet.figure.axes]
    (legend,) = sheet.figure.legends
    for place in range(4):
        assert words[place].y1 <= boxes[place].y0 + 1
        assert words[place].y0 >= (boxes[place + 2].y1 if place < 2 else legend.get_window_extent().y1) - 1
    assert words[0].x1 < words[1].x0


ONE = make_graph(pos=[[0, 0], [1, 1]], edges=[[0, 1]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graphs": []}, "empty"),
        ({"graphs": ONE}, "expected a list of graphs"),
        ({"graphs": [ONE], "captions": ["a", "b"]}, "1 graphs and 2 captions"),
        ({"graphs": [ONE], "captions": []}, "1 graphs and 0 captions"),
        ({"graphs": [ONE], "truths": [ONE, ONE]}, "1 graphs and 2 truths"),
        ({"graphs": [ONE], "truths": [make_graph(num_nodes=3)]}, "3 nodes, but its graph has 2"),
    ],
)
def test_an_impossible_gallery_is_refused(tmp_path: Path, arguments: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        save_gallery(path=tmp_path / "a.png", **arguments)
    assert not list(tmp_path.iterdir())


def test_any_graph_and_any_text_is_drawn(tmp_path: Path) -> None:
    path = save_gallery([nx.path_graph(3)], tmp_path / "a.svg", "costs $x^ and $", ["$\\nothing$"])
    assert path.exists()


def test_far_whole_positions_are_no_image() -> None:
    graph = make_graph(pos=[[0, 0], [10**6, 10**6]], x=[[0, 0, 0], [1, 1, 1]], edges=[[0, 1]])
    ax = Figure().add_subplot()
    draw_graph(graph, ax)
    assert not ax.images


def sizes_in(svg: Path) -> list[float]:
    """The sizes of all letters in points; matplotlib writes 72 of them for an inch."""
    return [float(size) for size in re.findall(r"font(?:-size)?:[^;\"]*?([\d.]+)px", svg.read_text())]


def width_of(svg: Path) -> float:
    """In inches."""
    (width,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', svg.read_text())
    return float(width) / 72


@pytest.fixture(scope="module")
def model() -> gln.GLN:
    return gln.load("delaunay")


@pytest.mark.parametrize("width", [2.2, 3.3, 6.9])
def test_letters_are_legible_at_the_width_of_a_column(tmp_path: Path, model: gln.GLN, width: float) -> None:
    truths = gln.family("delaunay", points=9).sample(5)
    guesses = gln.predict(model, truths)
    pictures = [
        save_gallery(guesses, tmp_path / "a.svg", "title", truths=truths, width=width),
        save_steps(model, truths[0], tmp_path / "b.svg", width=width),
    ]
    for picture in pictures:
        assert width_of(picture) == pytest.approx(width)
        assert min(sizes_in(picture)) >= 7
        assert max(sizes_in(picture)) <= 13
        assert "<text" in picture.read_text()  # letters are letters, not outlines


def test_text_in_pdf_is_truetype(tmp_path: Path) -> None:
    picture = save_gallery([ONE], tmp_path / "a.pdf", "some words", width=3.3).read_bytes()
    assert b"/FontFile2" in picture
    assert b"/Type3" not in picture
    assert b"CreationDate" not in picture


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_a_picture_is_the_same_each_time(tmp_path: Path, kind: str) -> None:
    graphs = gln.family("surfaces", points=16).sample(2)
    first, second = (save_gallery(graphs, tmp_path / f"{n}.{kind}", width=3.3) for n in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_steps_are_those_of_predict(tmp_path: Path, model: gln.GLN) -> None:
    (truth,) = gln.family("delaunay", points=9).sample(1, seed=4)
    words = save_steps(model, truth, tmp_path / "a.svg").read_text()
    assert "A⁰, no edges" in words
    for step, sign in enumerate("¹²³⁴", 1):
        guess = gln.predict(model, truth, steps=step)
        ax = Figure().add_subplot()
        missing, extra = draw_errors(guess, truth, ax)
        assert f"A{sign}, {missing} missing, {extra} extra" in words
    bare = make_graph(pos=truth.pos)
    words = save_steps(model, bare, tmp_path / "b.svg").read_text()
    assert f"A⁴, {gln.predict(model, truth).num_edges // 2} edges" in words
    assert "missing" not in words


def test_right_and_wrong_edges_have_the_colours_of_every_picture(tmp_path: Path) -> None:
    pos = [[0, 0], [1, 0], [0, 1]]
    guess, truth = (make_graph(pos=pos, edges=edges) for edges in ([[0, 1], [1, 2]], [[0, 1], [0, 2]]))
    text = save_gallery([guess], tmp_path / "a.svg", truths=[truth]).read_text().lower()
    for colour in (EDGE, MISSING, EXTRA):
        assert colour.lower() in text


def test_nodes_without_places_are_where_the_truth_pulls_them() -> None:
    truth, guess = nx.path_graph(6), nx.cycle_graph(6)
    sheet = Sheet(1, "", None, None)
    sheet.draw(as_graph(guess), as_graph(truth), "")
    (ax,) = sheet.figure.axes
    dots = ax.collections[0]
    assert not drawn(ax, "missing")
    (extra,) = drawn(ax, "extra")[-1].get_segments()
    assert extra == pytest.approx(np.asarray(dots.get_offsets())[[0, 5]])
    assert len(drawn(ax, RIGHT)[-1].get_segments()) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"width": 0.5}, "width=0.5"), ({"width": float("nan")}, "width=nan"), ({"columns": 0}, "columns=0")],
)
def test_a_size_that_cannot_be_is_refused(tmp_path: Path, settings: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        save_gallery([ONE], tmp_path / "a.svg", **settings)
    assert not list(tmp_path.iterdir())

"""Pictures show every node and every edge, for any graph."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from matplotlib.figure import Figure
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import make_graph
from gln.viewing import draw_graph, save_gallery
from gln.viewing.pictures import draw_errors
from tests.conftest import graphs


@pytest.mark.parametrize("width", [None, 1, 2, 3, 5])
def test_every_edge_and_node_is_drawn_for_any_width_of_pos(width: int | None) -> None:
    @settings(max_examples=8)
    @given(graph=graphs(pos_width=width))
    def check(graph: Data) -> None:
        ax = Figure().add_subplot()
        draw_graph(graph, ax)
        lines, dots = ax.collections
        assert len(lines.get_segments()) == graph.num_edges // 2
        assert len(dots.get_offsets()) == graph.num_nodes

    check()


def test_figures_are_drawn_over_their_image() -> None:
    ax = Figure().add_subplot()
    (graph,) = parse_family("figures:side=6").sample(1)
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
    missing, extra = ax.collections[-2:]
    assert missing.get_segments()[0].tolist() == [[0, 0], [0, 1]]
    assert extra.get_segments()[0].tolist() == [[1, 0], [0, 1]]


ONE = make_graph(pos=[[0, 0], [1, 1]], edges=[[0, 1]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graphs": []}, "empty"),
        ({"graphs": ONE}, "expected a list of graphs"),
        ({"graphs": [ONE], "captions": ["a", "b"]}, "1 graphs and 2 captions"),
        ({"graphs": [ONE], "captions": []}, "1 graphs and 0 captions"),
        ({"graphs": [ONE], "truths": [ONE, ONE]}, "1 graphs and 2 truths"),
        ({"graphs": [ONE], "truths": [make_graph(num_nodes=3)]}, "3 nodes, its graph has 2"),
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

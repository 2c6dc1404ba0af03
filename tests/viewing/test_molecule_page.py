"""Molecules on a page: elements have their colours, and a bond as many lines as its order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gln.graphs import make_graph
from gln.viewing.pages import write_page
from gln.workflows.views import View

COLOURED = """
const canvas = document.getElementById("canvas"), [red, green, blue] = arguments[0];
const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
const context = copy.getContext("2d", { willReadFrequently: true });
context.drawImage(canvas, 0, 0);
const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
let count = 0;
for (let at = 0; at < data.length; at += 4) {
  const [r, g, b, a] = data.subarray(at, at + 4);
  if (a > 200 && r * red + g * green + b * blue > 90) count++;
}
return count;
"""
RED, BLUE = [1, -0.5, -0.5], [-0.5, -0.5, 1]


def page_of(
    folder: Path, symbols: str, kind: int, names: tuple[str, ...] = ("single", "double", "triple")
) -> Path:
    graph = make_graph([[0.0, 0, 0], [1.2, 0, 0]], None, [[0, 1]], edge_type=torch.tensor([kind]))
    graph.edge_type_names = names
    graph.node_type, graph.node_type_names = torch.tensor([0, 1]), ("0", "-1 H1")
    return write_page(folder / "page.html", [View(graph, "m", symbols=symbols.split())])


def test_oxygen_is_red_and_nitrogen_is_blue(tmp_path: Path, visit: Callable[..., Any]) -> None:
    browser = visit(page_of(tmp_path, "C O", 0))
    assert browser.execute_script(COLOURED, RED) > 100
    assert browser.execute_script(COLOURED, BLUE) < 20
    browser = visit(page_of(tmp_path, "C N", 0), dark=True)
    assert browser.execute_script(COLOURED, BLUE) > 100


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_bond_has_as_many_lines_as_its_order(kind: int, tmp_path: Path, visit: Callable[..., Any]) -> None:
    browser = visit(page_of(tmp_path, "C C", kind))
    lines = """
    const view = window.page.view, strokes = [];
    const stroke = view.context.stroke.bind(view.context);
    view.layers.nodes = false;
    view.context.stroke = () => { strokes.push(1); stroke(); };
    view.draw();
    return [strokes.length, view.text(0), view.text(1)];
    """
    strokes, plain, charged = browser.execute_script(lines)
    assert strokes == 2 * (kind + 1)  # each half in the colour of its atom
    assert plain == ""
    assert charged == "CH⁻"

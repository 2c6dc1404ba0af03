"""The galleries of the experiments: predictions with their errors, and node states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from reproduction.clouds import draw_cloud
from torch import nn
from torch_geometric.data import Data

from gln.inference.predict import Choice, outputs
from gln.viewing.pictures import node_colours
from gln.viewing.sheets import Sheet

WIDTH = 7.2  # inches: the text width of a two-column page
DPI = 200


def save_errors(
    graphs: list[Data],
    truths: list[Data],
    captions: list[str],
    title: str,
    path: Path,
    model: nn.Module | None = None,
) -> list[dict[str, int]]:
    """Draw predictions with their right, missing and extra edges, and count these for every graph.

    The same drawing is written as a PDF beside ``path``. With ``model``, the first three principal components of its
    node states are drawn below each graph.
    """
    states = [] if model is None else node_states(model, graphs)
    columns = min(len(graphs), 3 if states else 4)
    rows = -(-len(graphs) // columns) * (2 if states else 1)
    sheet = Sheet(rows * columns, title, WIDTH, columns)
    counts = []
    for start in range(0, len(graphs), columns):
        row = slice(start, start + columns)
        for graph, truth, caption in zip(graphs[row], truths[row], captions[row], strict=True):
            missing, extra = sheet.draw(graph, truth, caption)
            counts.append({"right": truth.num_edges // 2 - missing, "missing": missing, "extra": extra})
        sheet.end_row()
        for state, truth in zip(states[row], truths[row], strict=False):
            place = sheet.next()
            draw_cloud(principal_components(state), node_colours(truth), place, sheet.scale)
            sheet.caption(place, "node states")
        sheet.end_row()
    sheet.add_legend()
    for suffix in (".png", ".pdf"):
        sheet.write(path.with_suffix(suffix), DPI)
    return counts


def node_states(model: nn.Module, graphs: list[Data]) -> list[np.ndarray]:
    """The node states after the last step ``[n, d]`` of each graph."""
    found: dict[int, np.ndarray] = {}
    for numbers, _, output in outputs(model, graphs, Choice(batch_size=20)):
        for place, number in enumerate(numbers):
            state = output.states[-1][place, : graphs[number].num_nodes]
            found[number] = state.float().numpy(force=True)
    return [found[number] for number in range(len(graphs))]


def principal_components(rows: np.ndarray, count: int = 3) -> np.ndarray:
    """``rows`` ``[n, d]`` along their ``count`` directions of largest variance: ``[n, count]``, padded with zeros."""
    centred = rows - rows.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    seen = centred @ directions[:count].T
    return np.pad(seen, ((0, 0), (0, count - seen.shape[1])))

"""The galleries of the experiments: predictions with their errors, and node states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from torch_geometric.data import Data

from gln.training.prediction import outputs
from gln.viewing.colours import GROUPS, INK
from gln.viewing.pictures import is_image
from gln.viewing.sheets import Sheet, write_figure

DPI = 130


def save_errors(
    graphs: list[Data],
    truths: list[Data],
    captions: list[str],
    title: str,
    path: Path,
    model: nn.Module | None = None,
) -> list[dict[str, int]]:
    """Draw predictions, right, missing and extra edges in their colours; count them for every graph.

    With ``model``, its node states are drawn below each graph, by their three principal components.
    """
    below = model is not None
    shown = len(graphs) * (1 + below)
    sheet = Sheet(shown, title, None, len(graphs) if below else min(len(graphs), 4))
    counts = []
    for graph, truth, caption in zip(graphs, truths, captions, strict=True):
        missing, extra = sheet.draw(graph, truth, caption)
        right = truth.num_edges // 2 - missing
        counts.append({"right": right, "missing": missing, "extra": extra})
    for index, state in enumerate([] if model is None else node_states(model, graphs)):
        place: Any = sheet.figure.add_subplot(2, sheet.columns, sheet.columns + index + 1, projection="3d")
        _draw_states(state, truths[index], place)
    sheet.add_legend(is_image(graphs[0]))
    write_figure(sheet.figure, path, DPI)
    return counts


def _draw_states(state: np.ndarray, truth: Data, ax: Any) -> None:
    groups = truth.get("community")
    colours = INK if groups is None else [GROUPS[group % len(GROUPS)] for group in groups.tolist()]
    ax.scatter(*principal_components(state).T, c=colours, s=12, depthshade=False)
    ax.set(xticklabels=[], yticklabels=[], zticklabels=[])
    ax.set_title("node states", fontsize=8, color=INK, y=-0.1)


def node_states(model: nn.Module, graphs: list[Data]) -> list[np.ndarray]:
    """The node states after the last step ``[n, d]`` of each graph."""
    found: dict[int, np.ndarray] = {}
    for numbers, _, output in outputs(model, graphs, None, batch_size=20):
        for place, number in enumerate(numbers):
            state = output.states[-1][place, : graphs[number].num_nodes]
            found[number] = state.float().numpy(force=True)
    return [found[number] for number in range(len(graphs))]


def principal_components(rows: np.ndarray, count: int = 3) -> np.ndarray:
    """``rows`` ``[n, d]`` along their ``count`` directions of most spread: ``[n, count]``, zeros where d is less."""
    centred = rows - rows.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    seen = centred @ directions[:count].T
    return np.pad(seen, ((0, 0), (0, count - seen.shape[1])))

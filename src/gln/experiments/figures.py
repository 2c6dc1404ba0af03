"""The pictures of the experiments: predictions with their errors, and curves."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke
from torch import nn
from torch_geometric.data import Data

from gln.files import write_atomically
from gln.training.prediction import joined, outputs
from gln.viewing import draw_graph
from gln.viewing.pictures import EDGE, EXTRA, GROUPS, INK, MISSING, draw_errors, is_image

METRIC_COLOURS = dict(zip(("mmd_degree", "mmd_clustering", "mmd_orbit"), GROUPS, strict=False))
SMALLEST = 1e-5  # below this the curves' scale is linear, so that 0 can be drawn


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
    columns = len(graphs) if model is not None else min(len(graphs), 4)
    lines = -(-len(graphs) // columns)
    below = 0 if model is None else 1
    figure = Figure(figsize=(2.9 * columns, 3.2 * lines * (1 + below) + 0.6), layout="constrained")
    figure.suptitle(title, color=INK, fontsize=13, parse_math=False)
    counts = []
    for index, (graph, truth) in enumerate(zip(graphs, truths, strict=True)):
        ax = figure.add_subplot(lines * (1 + below), columns, index + 1)
        counts.append(_draw_prediction(graph, truth, ax))
        wrong = f"{counts[-1]['missing']} missing, {counts[-1]['extra']} extra"
        ax.set_title(f"{captions[index]}, {wrong}", fontsize=8, color=INK, y=-0.1, parse_math=False)
    for index, state in enumerate([] if model is None else node_states(model, graphs)):
        place: Any = figure.add_subplot(2, columns, columns + index + 1, projection="3d")
        _draw_states(state, truths[index], place)
    right = Line2D([], [], color=EDGE, linewidth=2)
    if is_image(graphs[0]):
        rim = [Stroke(linewidth=4, foreground=INK), Normal()]
        right = Line2D([], [], color="white", linewidth=2, path_effects=rim)
    wrong_lines = [Line2D([], [], color=colour, linewidth=2) for colour in (MISSING, EXTRA)]
    names = ["predicted and true", "missing", "extra"]
    figure.legend([right, *wrong_lines], names, loc="outside lower center", ncols=3, frameon=False)
    _write(figure, path)
    return counts


def _draw_prediction(graph: Data, truth: Data, ax: Axes) -> dict[str, int]:
    """The right edges as the graph, the wrong ones over it; how many there are of each."""
    key = [edges.edge_index[0] * graph.num_nodes + edges.edge_index[1] for edges in (graph, truth)]
    found = graph.edge_index[:, torch.isin(*key)]
    right = joined(truth, found, torch.ones(found.shape[1]))
    right.community = truth.get("community")
    draw_graph(right, ax)
    missing, extra = draw_errors(graph, truth, ax)
    if is_image(graph):
        for wrong in ax.collections[-2:]:  # with a rim, to be seen on any colour
            wrong.set(linewidth=2.5, zorder=3, path_effects=[Stroke(linewidth=4.5, foreground=INK), Normal()])
    return {"right": right.num_edges // 2, "missing": missing, "extra": extra}


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


def save_curves(panels: dict[str, dict[str, dict[float, list[float]]]], over: str, path: Path) -> None:
    """One panel for each title: by metric, the values of all runs at each place along the axis.

    The line is the mean, the band reaches from the least to the greatest run.
    """
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.6 * columns, 3.0 * rows + 0.4), layout="constrained")
    for index, (title, curves) in enumerate(panels.items()):
        ax = figure.add_subplot(rows, columns, index + 1)
        _draw_curves(ax, curves)
        ax.set_title(title, fontsize=9, color=INK)
        ax.set_xlabel(over, fontsize=8)
        ax.set_ylabel("MMD²", fontsize=8)
    lines = [Line2D([], [], color=colour, linewidth=2, marker="o") for colour in METRIC_COLOURS.values()]
    figure.legend(
        lines, ["degree", "clustering", "orbit"], loc="outside lower center", ncols=3, frameon=False
    )
    _write(figure, path)


def _draw_curves(ax: Axes, curves: dict[str, dict[float, list[float]]]) -> None:
    for metric, points in curves.items():
        places = sorted(points)
        values = [points[place] for place in places]
        colour = METRIC_COLOURS[metric]
        ax.plot(places, [float(np.mean(runs)) for runs in values], color=colour, marker="o", markersize=3)
        ax.fill_between(
            places, [min(runs) for runs in values], [max(runs) for runs in values], color=colour, alpha=0.2
        )
        ax.set_xticks(places)
    ax.set_yscale("symlog", linthresh=SMALLEST)
    ax.set_ylim(0, 3)
    ax.tick_params(labelsize=7)
    ax.grid(alpha=0.3)


def _write(figure: Figure, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, facecolor="white")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())

"""The charts of the experiments at the width of a printed page: MMD² curves, and IoU at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from gln.viewing.sheets import write_figure
from gln.viewing.style import EDGE, GROUPS, INK, MARKERS, MISSING
from reproduction.gallery import WIDTH
from reproduction.specs import columns, experiments, systems
from reproduction.tables import IOU_ROWS, MAIN, MMD, Measured, mean_of, published, shares_of

SMALLEST = 1e-6  # below this the MMD² axis is linear, so that 0 can be drawn
NAMES = [metric.removeprefix("mmd_") for metric in MMD]
SIZES = (5.5, 4.0, 2.5)  # of markers, so that equal curves all stay visible
GREY = "#7b8794"
PUBLISHED = "GLN, published"
#: The rows of the IoU chart with their colours and markers.
LOOKS = {
    PUBLISHED: (INK, "x"),
    "constant": (MISSING, "s"),
    "stabilised": (GROUPS[1], "^"),
    "knn": (GREY, "D"),
    "gln": (EDGE, "o"),
}
HEADINGS = {"ordered": "ordered nodes, as in the paper", "set": "sets: the nodes are shuffled"}
OVER = {"steps": "steps", "shares": "share of all pairs in A⁰"}


@dataclass(frozen=True)
class Panel:
    """The curves of one system on one column: for each metric, the values of all runs at each point of the axis."""

    system: str
    protocol: str
    column: str
    points: dict[str, dict[float, list[float]]]
    floor: dict[str, float]  # by metric: between training and test graphs, if measured


def panels_of(name: str, measured: Measured, floors: Measured) -> list[Panel]:
    """The curves of an experiment with a picture; ``floors`` are the cells of table-mmd."""
    one = experiments()[name]
    found: dict[tuple[str, str, str], Panel] = {}
    for cell in measured.values():
        protocol, column, row = cell["protocol"], cell["column"], cell["row"]
        if "shares" in cell:
            runs = [(entry["share"], run) for entry in shares_of(cell) for run in entry["runs"]]
        elif "scores" in cell and row != "floor":
            runs = [(one.rows[protocol][row]["steps"], cell["scores"])]
        else:
            continue
        key = one.system_title(protocol, row), protocol, column
        known = ((metric, mean_of(floors, f"{protocol}/{column}/floor", metric)) for metric in MMD)
        floor = {metric: value for metric, value in known if value is not None}
        panel = found.setdefault(key, Panel(*key, {metric: {} for metric in MMD}, floor))
        for place, scores in runs:
            for metric in MMD:
                panel.points[metric].setdefault(place, []).append(scores[metric])
    return list(found.values())


def save_curves(panels: list[Panel], over: str, path: Path) -> None:
    """A row of panels for each column, a panel for each system; the floor is a dashed line."""
    graphs = list(dict.fromkeys(panel.column for panel in panels))
    # Ordered nodes come first.
    runners = sorted(dict.fromkeys((p.protocol, p.system) for p in panels), key=itemgetter(0))
    ticks = sorted({place for panel in panels for points in panel.points.values() for place in points})
    figure = Figure(figsize=(min(WIDTH, 3.6 * len(runners)), 2.1 * len(graphs) + 0.35), layout="constrained")
    axes = figure.subplots(len(graphs), len(runners), sharex=True, sharey=True, squeeze=False)
    drawn = {(panel.column, panel.protocol, panel.system): panel for panel in panels}
    for row, column in enumerate(graphs):
        for place, (protocol, system) in enumerate(runners):
            ax = axes[row, place]
            panel = drawn.get((column, protocol, system))
            _draw_panel(panel, ax)
            if row == 0:
                ax.set_title(f"{system}, {protocol}", fontsize=9, color=INK)
            if place == 0:
                ax.set_ylabel(f"{columns()[column].title}\nMMD²", fontsize=8, color=INK)
            else:
                ax.tick_params(axis="y", length=0)
            if row == len(graphs) - 1:
                ax.set_xlabel(over, fontsize=8, color=INK)
    _scale(axes[0, 0], ticks)
    lines = [Line2D([], [], color=GROUPS[i], marker=MARKERS[i], markersize=3.5) for i in range(len(NAMES))]
    floor = Line2D([], [], color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
    _legend(figure, [*lines, floor], [*NAMES, "floor (training graphs)"])
    write_figure(figure, path)


def save_iou(measured: Measured, path: Path) -> None:
    """IoU in the main columns, published and measured (cells of table-mmd), on ordered nodes and on sets."""
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    axes = figure.subplots(1, len(HEADINGS), sharey=True)
    for ax, (protocol, heading) in zip(axes, HEADINGS.items(), strict=True):
        rows = [PUBLISHED] * (protocol == "ordered") + [row for where, row in IOU_ROWS if where == protocol]
        for place, row in enumerate(rows):
            colour, marker = LOOKS[row]
            shift = 0.2 * (place - (len(rows) - 1) / 2)  # so that equal scores all stay visible
            for line, column in enumerate(MAIN):
                value = (
                    float(published("table-scores", column, "iou"))
                    if row == PUBLISHED
                    else mean_of(measured, f"{protocol}/{column}/{row}", "iou")
                )
                if value is not None:
                    ax.plot(value, line + shift, marker, color=colour, markersize=4, clip_on=False, zorder=3)
        for line in range(len(MAIN) - 1):
            ax.axhline(line + 0.5, color=GREY, linewidth=0.4)
        ax.set(xlim=(-0.02, 1.02), ylim=(len(MAIN) - 0.5, -0.5), yticks=range(len(MAIN)))
        ax.set_yticklabels([columns()[column].title for column in MAIN])
        ax.tick_params(axis="y", length=0)
        _dress(ax)
        ax.set_title(heading, fontsize=9, color=INK)
        ax.set_xlabel("IoU", fontsize=8, color=INK)
    handles = [Line2D([], [], color=c, marker=m, markersize=4.5, linestyle="") for c, m in LOOKS.values()]
    titles = [row if row == PUBLISHED else str(systems()[row]["title"]) for row in LOOKS]
    _legend(figure, handles, titles)
    write_figure(figure, path)


def save_training(measured: Measured, names: Sequence[str], path: Path) -> None:
    """IoU on test graphs after every epoch, a panel for each column: each training of the equations that was kept."""
    figure = Figure(figsize=(WIDTH, 2.4), layout="constrained")
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    seeds: set[int] = set()
    for ax, column in zip(axes, names, strict=True):
        curves: dict[int, list[list[float]]] = {}
        for cell in measured.values():
            if cell["column"] == column and cell["row"] in ("equations-1", "equations-longer"):
                curve = cell["system"]["curve"]
                if len(curve) > len(curves.get(cell["training_seed"], [])):
                    curves[cell["training_seed"]] = curve
        for seed, curve in sorted(curves.items()):
            ax.plot([at[0] for at in curve], [at[2] for at in curve], color=GROUPS[seed], linewidth=1)
        seeds |= curves.keys()
        _dress(ax)
        ax.set(ylim=(0, 1.02), xlim=(0, None))
        ax.set_title(columns()[column].title, fontsize=9, color=INK)
        ax.set_xlabel("epoch, with batches of one", fontsize=8, color=INK)
    axes[0].set_ylabel("IoU on test graphs", fontsize=8, color=INK)
    lines = [Line2D([], [], color=GROUPS[seed]) for seed in sorted(seeds)]
    _legend(figure, lines, [f"seed {seed}" for seed in sorted(seeds)])
    write_figure(figure, path)


def _draw_panel(panel: Panel | None, ax: Axes) -> None:
    if panel is None:
        _dress(ax)
        ax.text(0.5, 0.5, "not measured yet", transform=ax.transAxes, ha="center", color=GREY, fontsize=8)
        return
    for colour, marker, size, metric in zip(GROUPS, MARKERS, SIZES, MMD, strict=False):
        draw_curve(panel.points[metric], ax, color=colour, marker=marker, markersize=size)
        if metric in panel.floor:
            floor = max(panel.floor[metric], 0.0)
            ax.axhline(floor, color=colour, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    ax.grid(axis="y", alpha=0.3, linewidth=0.5)
    _dress(ax)


def draw_curve(points: Mapping[float, Sequence[float]], ax: Axes, color: str, **look: Any) -> None:
    """Draw the mean of the runs at each point, and a band around all."""
    along = sorted(points)
    values = [points[place] for place in along]
    # Markers at zero are not cut off.
    ax.plot(along, list(map(mean, values)), color=color, linewidth=1.2, clip_on=False, **look)
    ax.fill_between(along, list(map(min, values)), list(map(max, values)), color=color, alpha=0.2, lw=0)


def _scale(ax: Axes, ticks: list[float]) -> None:
    """The axes that all panels share."""
    shown = ticks if len(ticks) <= 8 else ticks[::-2]
    ax.set_xticks(shown)
    if max(ticks) <= 1:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    ax.set_yscale("symlog", linthresh=SMALLEST)
    ax.set_ylim(0, 4)
    ax.yaxis.set_major_formatter(FuncFormatter(_power))


def _power(value: float, _: int) -> str:
    """A power of ten in plain characters, which need no math font."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.0e}".partition("e")[2])
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _dress(ax: Any) -> None:
    ax.grid(axis="x", alpha=0.3, linewidth=0.5)
    ax.tick_params(labelsize=8, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, lines: list[Line2D], names: list[str]) -> None:
    figure.legend(
        lines, names, loc="outside lower center", ncols=len(names), frameon=False, labelcolor=INK, fontsize=8,
        handletextpad=0.4, columnspacing=1.5,
    )  # fmt: skip

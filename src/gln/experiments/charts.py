"""The charts of the experiments at the width of a printed page: MMD² curves, and IoU at a glance."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from gln.experiments.claims import Panel
from gln.experiments.headline import MAIN, MMD, published, score
from gln.experiments.specs import columns, systems
from gln.experiments.tables import Measured
from gln.viewing.sheets import MARKERS, draw_curves, write_figure
from gln.viewing.style import EDGE, GROUPS, INK, MISSING

WIDTH = 7.2  # inches: the text width of a two-column page
SMALLEST = 1e-6  # below this the MMD² axis is linear, so that 0 can be drawn
NAMES = {metric: metric.removeprefix("mmd_") for metric in MMD}
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
SHOWN = {"ordered": (PUBLISHED, "constant", "stabilised", "gln"), "set": ("constant", "knn", "gln")}
HEADINGS = {"ordered": "ordered nodes, as in the paper", "set": "sets: the nodes are shuffled"}


def save_curves(panels: list[Panel], over: str, path: Path) -> None:
    """A row of panels for each column, a panel for each system; the floor is a dashed line."""
    graphs = list(dict.fromkeys(panel.column for panel in panels))
    # Ordered nodes come first.
    runners = sorted(dict.fromkeys((p.protocol, p.system) for p in panels), key=itemgetter(0))
    ticks = sorted({place for panel in panels for place in panel.along})
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
    _legend(figure, [*lines, floor], [*NAMES.values(), "floor (training graphs)"])
    write_figure(figure, path)


def save_iou(cells: dict[str, Measured], path: Path) -> None:
    """IoU in the main columns, published and measured, on ordered nodes and on sets."""
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    axes = figure.subplots(1, len(HEADINGS), sharey=True)
    for ax, (protocol, heading) in zip(axes, HEADINGS.items(), strict=True):
        for place, row in enumerate(SHOWN[protocol]):
            colour, marker = LOOKS[row]
            shift = 0.2 * (place - (len(SHOWN[protocol]) - 1) / 2)  # so that equal scores all stay visible
            for line, column in enumerate(MAIN):
                value = (
                    published(column, "iou")
                    if row == PUBLISHED
                    else score(cells, protocol, column, row, "iou")
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


def _draw_panel(panel: Panel | None, ax: Axes) -> None:
    if panel is None:
        _dress(ax)
        ax.text(0.5, 0.5, "not measured yet", transform=ax.transAxes, ha="center", color=GREY, fontsize=8)
        return
    draw_curves({NAMES[metric]: points for metric, points in panel.points.items()}, ax, list(NAMES.values()))
    _dress(ax)
    for line, size in zip(ax.lines, (5.5, 4.0, 2.5), strict=False):  # so that equal curves all stay visible
        line.set_markersize(size)
        line.set_clip_on(False)  # do not cut off markers at zero
    for metric, value in panel.floor.items():
        colour = GROUPS[list(NAMES).index(metric)]
        ax.axhline(max(value, 0.0), color=colour, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)


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

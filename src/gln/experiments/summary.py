"""The one-page summary of the reproduction; its numbers and its verdicts are read from the cells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import isclose

from gln.experiments.claims import (
    RULES,
    Panel,
    five_steps,
    initial_structure,
    mmd_values,
    panels_of,
    system_title,
)
from gln.experiments.cost import cost
from gln.experiments.findings import Cells, listed, network, on_sets, tables_show
from gln.experiments.headline import MAIN, bar_table, behind, iou_table, mmd_table, score
from gln.experiments.runner import Cell, Places, choose
from gln.experiments.tables import MISSING, cannot, markdown

ALIKE = 0.05  # a relative difference that does not count


def summary(cells: Cells, picture: str) -> list[str]:
    """The summary; ``picture`` is the chart beside its tables."""
    return [
        "## Summary",
        "",
        "*PaperGLN* is the paper's network, *GLN* this package's model. *Constant* always predicts the edges that at "
        "least half of the training graphs have; *copy* returns a random training graph: neither looks at a feature.",
        "",
        f"{behind(cells)} Spreads are in the tables below.",
        "",
        "IoU ↑ over all n² entries in the paper's main columns, averaged over test graphs and seeds:",
        "",
        *markdown(iou_table(cells)),
        "",
        "MMD² ↓ of degrees / clustering / orbits:",
        "",
        *markdown(mmd_table(cells)),
        "",
        f"![IoU in the main columns, on ordered nodes and on sets]({picture})",
        "",
        "The bar for GLN on ordered nodes, set for the main columns: an IoU at least as high as published and higher "
        "than the constant's, and MMD² at most as high as published.",
        "",
        *markdown(bar_table(cells)),
        "",
        *_section("How each form of the network does on ordered nodes", network(cells)),
        *_section("What the paper's tables can and cannot show", tables_show(cells)),
        *_section("What GLN does on unordered sets", on_sets(cells)),
        "### The paper's two claims",
        "",
        *markdown(claims(cells)),
        "",
        *(f"- {rule}" for rule in RULES),
        "",
        *_section("What remains open", remains_open(cells)),
        *_section("What it cost", cost(cells)),
    ]


def claims(cells: Cells) -> list[list[str]]:
    """A verdict for every curve on “five steps suffice” and “the initial structure hardly matters”."""
    table = [["claim", "measured with", "verdict"]]
    for name, claim, judge in (
        ("figure-depth", "five steps suffice", five_steps),
        ("figure-robustness", "A⁰ hardly matters", initial_structure),
    ):
        panels = panels_of(name, cells)
        table += [[claim, panel.title, _beside_constant(cells, panel, judge(panel))] for panel in panels]
        if not panels:
            table.append([claim, MISSING, "not measured yet"])
    return table


def remains_open(cells: Cells) -> list[str]:
    """What has not been measured, what cannot be, and where GLN misses the bar."""
    everything, missing, never = choose([], "full", None), [], defaultdict[str, list[Cell]](list)
    for cell in everything:
        found = cells[cell.experiment.name].get(cell.name)
        if reason := cannot(cell, found):
            never[reason].append(cell)
        elif found is None:
            missing.append(cell)
    lines, first = [], [cell for cell in missing if not cell.seed]
    if missing:
        lines.append(
            f"Not measured yet: {len(missing)} of {len(everything)} cells (a cell is one row in one column from one "
            f"seed), {len(missing) - len(first)} of them repeats from other seeds. The others: "
            f"{_by_experiment(first) or 'none'}."
        )
    lines += [f"Cannot be measured: {_by_experiment(group)}; {reason}." for reason, group in never.items()]
    old = earlier_weights(cells)
    if old:
        names = ", ".join(f"`{name}`" for name in old)
        lines.append(
            f"Measured with earlier weights of the same network and due to be measured again: {names}."
        )
    short_of = [line for line in bar_table(cells)[1:] if any("no" in entry for entry in line[1:])]
    for title, *entries in short_of:
        where = [column for column, entry in zip(MAIN, entries, strict=True) if "no" in entry]
        lines.append(f"GLN on ordered nodes does not clear the bar “{title}” in {listed(where)}.")
    lines.append(
        "The paper does not give its images, the settings of its baselines, or the numbers behind its curves; "
        "differences that stem from these cannot be resolved."
    )
    return lines


def earlier_weights(cells: Cells) -> list[str]:
    """Cells measured with weights that their network has since replaced, by experiment and name."""
    found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for cell in choose([], "full", None):
        measured = cells[cell.experiment.name].get(cell.name, {})
        system = measured.get("system", {})
        weights = system.get("training") or system.get("training_seconds")
        if weights is not None:
            network = system.get("shipped") or cell.run_folder(Places()).as_posix()
            label = f"{cell.experiment.name} {cell.name}"
            found[network + cell.mark].append((str(measured["environment"]["time"]), str(weights), label))
    return [name for group in found.values() for _, weights, name in group if weights != max(group)[1]]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return [f"### {title}", "", *(f"- {line}" for line in lines), ""]


def _beside_constant(cells: Cells, panel: Panel, verdict: str) -> str:
    """The verdict, or that there is none: what always predicts the constant cannot be moved by anything."""
    constant = {m: score(cells, panel.protocol, panel.column, "constant", m) for m in panel.points}
    same = [
        all(
            value is not None and isclose(panel.at(place)[m], value, rel_tol=ALIKE)
            for m, value in constant.items()
        )
        for place in panel.along
    ]
    if all(same):
        values = mmd_values(panel.at(panel.along[0]))
        return f"shows nothing: its MMD² are the constant's throughout ({values})"
    where = f"; at {sum(same)} of {len(same)} points of the curve, its MMD² are nearly the constant's"
    return verdict + where * any(same)


def _by_experiment(missing: list[Cell]) -> str:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for cell in missing:
        system = system_title(cell.experiment, cell.protocol, cell.row)
        found[cell.experiment.name][f"{system} {cell.protocol}"] += 1
    return "; ".join(
        f"`{name}` {', '.join(f'{system} ({count})' for system, count in counts.most_common())}"
        for name, counts in found.items()
    )

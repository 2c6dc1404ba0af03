"""Two claims that the paper makes with a plot, checked against the measured curves.

Five steps suffice (``figure-depth``), and the initial structure hardly matters (``figure-robustness``).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean

from gln.evaluation.metrics import METRICS, number
from gln.experiments.headline import MMD, published
from gln.experiments.specs import Experiment, columns, experiment, systems
from gln.experiments.tables import Measured, mean_of, shares_of

FIVE = 5  # the number of steps that the paper recommends
MATTERS = 2.0  # an MMD² this many times larger than with an empty A⁰ is no small change
NOISE = 1e-4  # the paper's smallest MMD²; changes below it are ignored
RULES = (
    "The aim of *five steps* is the published MMD² on ordered nodes and the floor on sets. Five are more than needed "
    "if fewer reach the aim, or do as well as five, in every MMD².",
    f"Five steps are too few if they miss the aim and more steps make every MMD² at least {MATTERS:g} times smaller.",
    "PaperGLN is trained for each number of steps; GLN is trained once and read out after fewer.",
    f"*A⁰*, the initial structure, matters if an MMD² grows to more than {MATTERS:g} times its value at 0% (no edges, "
    f"as in training). An MMD² below {NOISE:g} counts as {NOISE:g}.",
)


@dataclass(frozen=True)
class Panel:
    """The curves of one system on one column: for each metric, the values of all runs at each point of the axis."""

    system: str
    protocol: str
    column: str
    points: dict[str, dict[float, list[float]]]
    floor: dict[str, float]  # by metric: between training and test graphs, if measured

    @property
    def title(self) -> str:
        return f"{self.system}, {columns()[self.column].title}, {self.protocol}"

    @property
    def along(self) -> list[float]:
        return sorted({place for points in self.points.values() for place in points})

    def at(self, place: float) -> dict[str, float]:
        """By metric, the mean over the runs."""
        return {metric: mean(points[place]) for metric, points in self.points.items()}


def panels_of(name: str, cells: dict[str, Measured]) -> list[Panel]:
    """The curves of an experiment with a picture; those on the same graphs are adjacent."""
    one = experiment(name)
    found: dict[tuple[str, str, str], dict[str, dict[float, list[float]]]] = {}
    for cell in cells[name].values() if one.picture else ():
        protocol, column, row = cell["protocol"], cell["column"], cell["row"]
        runs = [(entry["share"], run) for entry in shares_of(cell) for run in entry["runs"]]
        steps = one.rows[protocol][row].get("steps")
        if one.picture == "steps" and steps is not None and "scores" in cell:
            runs.append((steps, cell["scores"]))
        key = system_title(one, protocol, row), protocol, column
        for place, scores in runs:
            points = found.setdefault(key, {metric: {} for metric in one.metrics})
            for metric in one.metrics:
                points[metric].setdefault(place, []).append(scores[metric])
    places = [column for group in one.columns.values() for column in group]
    return [
        Panel(*key, points, floor_of(cells, *key[1:]))
        for key, points in sorted(found.items(), key=lambda item: places.index(item[0][2]))
    ]


def system_title(one: Experiment, protocol: str, row: str) -> str:
    """What runs in a row, without the settings that the row changes."""
    return str(systems()[one.rows[protocol][row].get("system", row)]["title"])


def floor_of(cells: dict[str, Measured], protocol: str, column: str) -> dict[str, float]:
    """The MMD² between training and test graphs."""
    found = {metric: mean_of(cells["table-mmd"], f"{protocol}/{column}/floor", metric) for metric in MMD}
    return {metric: value for metric, value in found.items() if value is not None}


def five_steps(panel: Panel) -> str:
    """Whether five steps suffice, and whether fewer do, in one sentence.

    A number of steps does as well as five if each of its MMD² is at most that of five steps or good enough, which
    means the published value on ordered nodes and the floor on sets.
    """
    along = [int(place) for place in panel.along]
    enough = {
        metric: published(panel.column, metric)
        if panel.protocol == "ordered"
        else panel.floor.get(metric, 0.0)
        for metric in MMD
    }
    good = [steps for steps in along if all(panel.at(steps)[m] <= enough[m] for m in MMD)]
    aim = "published MMD²" if panel.protocol == "ordered" else "floor"
    reached = f"the {aim} is reached with {_steps(good[0])}" if good else f"the {aim} is not reached"
    if FIVE not in along:
        return f"open: five steps have not been measured; {reached}"
    limit = {metric: max(panel.at(FIVE)[metric], enough[metric]) for metric in MMD}
    fewer = [s for s in along if s < FIVE and all(panel.at(s)[m] <= limit[m] for m in MMD)]
    more = [s for s in along if s > FIVE]
    better = [
        s
        for s in more
        if FIVE not in good and all(panel.at(s)[m] <= panel.at(FIVE)[m] / MATTERS for m in MMD)
    ]
    if fewer:
        as_well = "" if fewer[0] in good else f": {_steps(fewer[0])} {_do(fewer[0])} as well"
        verdict = f"five steps are more than needed{as_well}"
    elif better:
        verdict = f"not confirmed: {_steps(better[0])} at least halve every MMD²"
    elif more:
        verdict = "confirmed: fewer steps are worse, and more do not halve every MMD²"
    else:
        verdict = "fewer steps are worse; more were not measured"
    shown = dict.fromkeys((along[0], FIVE, along[-1]))
    values = ", ".join(f"{mmd_values(panel.at(steps))} with {_steps(steps)}" for steps in shown)
    return f"{verdict}; {reached} ({values})"


def initial_structure(panel: Panel) -> str:
    """Whether the share of pairs in A⁰ hardly matters, in one sentence."""
    first, *others = panel.along
    if not others:
        return "open: only one share has been measured"
    start = panel.at(first)
    breaks = [share for share in others if _grown(panel.at(share), start)]
    if not breaks:
        most = max(panel.at(share)[m] / max(start[m], NOISE) for share in others for m in MMD)
        return (
            f"confirmed: from {first:.0%} to {others[-1]:.0%} of all pairs, no MMD² grows beyond "
            f"{max(most, 1.0):.2f} times its value at {first:.0%}"
        )
    share = breaks[0]
    grown = ", ".join(
        f"{METRICS[m].title} {number(start[m])} → {number(panel.at(share)[m])}"
        for m in _grown(panel.at(share), start)
    )
    kept = [s for s in panel.along if s < share]
    until = f"holds up to {kept[-1]:.0%}, " if len(kept) > 1 else ""
    return f"not confirmed: {until}breaks at {share:.0%} of all pairs ({grown}){_among_others(panel, share)}"


def _among_others(panel: Panel, share: float) -> str:
    """If the curve breaks as soon as A⁰ is not empty: how it varies beyond, over the shares that the paper plots."""
    others = panel.along[1:]
    if share != others[0] or len(others) < 2:
        return ""
    values = [[max(panel.at(place)[m], NOISE) for place in others] for m in MMD]
    factor = max(max(curve) / min(curve) for curve in values)
    return f"; from {share:.0%} to {others[-1]:.0%}, MMD² vary by a factor of up to {factor:.1f}"


def _grown(scores: dict[str, float], before: dict[str, float]) -> list[str]:
    """The metrics in which ``scores`` are enough larger to matter."""
    return [m for m in MMD if scores[m] > MATTERS * max(before[m], NOISE)]


def mmd_values(scores: dict[str, float]) -> str:
    """Of degrees, clustering and orbits."""
    return " / ".join(number(scores[metric]) for metric in MMD)


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _do(count: int) -> str:
    return "does" if count == 1 else "do"

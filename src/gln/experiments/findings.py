"""What the tables say about the network, about themselves and about sets, in sentences that follow the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from gln.experiments.claims import NOISE
from gln.experiments.headline import IOU, MAIN, MMD, has_published, score, short
from gln.experiments.runner import cells_of
from gln.experiments.specs import columns, experiment
from gln.experiments.tables import Measured, cannot, compared, mean_of

Cells = dict[str, Measured]
LISTED = 4  # a sentence names up to this many columns
NETWORKS = {
    "equations": "the paper's equations and training settings, [as we read them](paper-network.md#readings)",
    "released": "what the authors' code computes, trained for as many epochs as there",
    "stabilised": "the equations with [three changes](paper-network.md), trained differently (Figures: with one step)",
    "gln": "the same idea without a matrix tied to n, given each node's place in the list",
}
EDGE_SCORES = ("accuracy", "iou", "recall", "precision")


def network(cells: Cells) -> list[str]:
    """Each form of the network on ordered nodes, against the published numbers and the constant."""
    lines = []
    for row, words in NETWORKS.items():
        title = f"**{experiment('table-scores').title_of('ordered', row)}**, {words}"
        found = {column: score(cells, "ordered", column, row, "iou") for column in all_columns()}
        known = {column: value for column, value in found.items() if value is not None}
        if not known:
            lines.append(f"{title}: not measured yet.")
            continue
        low, high = (short(choose(known.values())) for choose in (min, max))
        possible = _possible(cells, row)
        worse = [column for column in known if not has_published(cells, column, row, IOU)]
        where = f" (not in {listed(worse)})" if 0 < len(worse) <= LISTED else ""
        lines.append(
            f"{title}; {len(known)} of {possible} {'' if possible == len(found) else 'possible '}columns measured: IoU "
            f"{low if low == high else f'{low} to {high}'}, at least as high as published in "
            f"{len(known) - len(worse)} of {len(known)}{where}. {against_constant(cells, row)}"
        )
    return lines


def against_constant(cells: Cells, row: str) -> str:
    """In which columns the IoU, as shown, is above, equal to or below the constant's."""
    found: dict[str, list[str]] = {"wins": [], "ties": [], "loses": []}
    for column in all_columns():
        ours, theirs = (score(cells, "ordered", column, name, "iou") for name in (row, "constant"))
        if ours is not None and theirs is not None:
            gap = float(short(ours)) - float(short(theirs))
            found["wins" if gap > 0 else "loses" if gap < 0 else "ties"].append(column)
    parts = [f"{word} in {listed(names)}" for word, names in found.items() if names]
    perfect = sum(score(cells, "ordered", column, "constant", "iou") == 1.0 for column in found["loses"])
    if perfect:
        count = "all" if perfect == len(found["loses"]) else str(perfect)
        parts[-1] += f", in {count} of which the constant makes no error"
    nowhere = "" if found["wins"] or not parts else ", and wins nowhere"
    if not parts:
        return "The constant has not been measured there."
    return f"Against the constant it {'; '.join(parts)}{nowhere}."


def tables_show(cells: Cells) -> list[str]:
    """How well one can do without looking at a feature."""
    lines = [_counts(cells, row) for row in ("constant", "copy")]
    known = [
        column for column in all_columns() if score(cells, "ordered", column, "constant", "iou") is not None
    ]
    metrics = (*EDGE_SCORES, *MMD)
    matched = [c for c in known if any(has_published(cells, c, row, metrics) for row in ("constant", "copy"))]
    rest = [c for c in known if c not in matched]
    lines.append(
        f"In {len(matched)} of {len(known)} columns one of the two matches or beats every published number, edge "
        f"scores and MMD² alike; such a column cannot tell learning from memory. "
        + (f"The columns that can: {listed(rest, len(rest))}." if rest else "No column can.")
    )
    perfect = [c for c in known if score(cells, "ordered", c, "constant", "iou") == 1.0]
    if perfect:
        lines.append(
            f"In {len(perfect)} columns the constant makes no error at all, as all test graphs have the same edges."
        )
    lines.append(
        "The ordered surfaces of all kinds are only four different graphs, because three of the six kinds share one: "
        "a network that tells the four apart is perfect there."
    )
    pairs = [
        [score(cells, protocol, column, "constant", "iou") for protocol in ("ordered", "set")]
        for column in MAIN
    ]
    both = [(there, here) for there, here in pairs if there is not None and here is not None]
    if both:
        there, here = ("–".join(dict.fromkeys(map(short, (min(v), max(v))))) for v in zip(*both, strict=True))
        lines.append(
            f"The node order gives the answer away: in the main columns the constant has an IoU of {there} on ordered "
            f"nodes and {here} on sets."
        )
    return lines


def on_sets(cells: Cells) -> list[str]:
    """GLN on shuffled nodes, beside the nearest-neighbour graph and the constant."""
    ahead, found = 0, {}
    for column in all_columns():
        ours, *others = (score(cells, "set", column, row, "iou") for row in ("gln", "knn", "constant"))
        known = [value for value in others if value is not None]
        if ours is not None and known:
            found[column] = ours
            ahead += ours > max(known)
    if not found:
        return ["Not measured yet."]
    exact = {column: score(cells, "set", column, "gln", "exact") for column in MAIN if column in found}
    parts = [f"{columns()[column].title} {value:.0%}" for column, value in exact.items() if value is not None]
    worst = min(found, key=lambda column: found[column])
    return [
        "Each family has one shipped model (the main columns also have two retrainings), trained on 3 to 40 times the "
        "paper's number of graphs, drawn from other seeds (its card says how many); Surfaces 400 only as patches of "
        "100 points. On ordered nodes all networks are given the paper's 80 %.",
        f"GLN's IoU is above those of the nearest-neighbour graph and the constant in {ahead} of {len(found)} columns. "
        f"Its lowest IoU is {short(found[worst])}, in {columns()[worst].title}.",
        *_above_floor(cells),
        *([f"Test graphs predicted without a single error: {', '.join(parts)}."] if parts else []),
        *_delaunay(cells),
    ]


def _above_floor(cells: Cells) -> list[str]:
    """In which main columns GLN's graphs differ from true ones more than true ones differ among themselves."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for column in MAIN:
        pairs = [[score(cells, "set", column, row, metric) for row in ("gln", "floor")] for metric in MMD]
        known = [(ours, floor) for ours, floor in pairs if ours is not None and floor is not None]
        if known:
            found[any(ours > max(floor, NOISE) for ours, floor in known)].append(column)
    above, within = found[True], found[False]
    if not above and not within:
        return []
    words = [f"above it in {listed(above)}"] * bool(above) + [f"within it in {listed(within)}"] * bool(within)
    return [
        f"Against the floor, the MMD² among true graphs (or {NOISE:g}), GLN's MMD² are {' and '.join(words)}."
    ]


def _possible(cells: Cells, row: str) -> int:
    """The number of columns in which the row can be measured on ordered nodes."""
    table = experiment("table-scores")
    ours = (cell for cell in cells_of(table, "full") if (cell.protocol, cell.row) == ("ordered", row))
    return len({cell.column for cell in ours if not cannot(cell, cells[table.name].get(cell.name))})


def all_columns() -> list[str]:
    """The columns of the paper's tables."""
    return [column for group in experiment("table-scores").columns.values() for column in group]


def listed(names: Sequence[str], most: int = LISTED) -> str:
    if len(names) > most:
        return f"{len(names)} columns"
    return ", ".join(columns()[name].title for name in names)


def _counts(cells: Cells, row: str) -> str:
    parts, title = [], experiment("table-scores").title_of("ordered", row)
    for name, words in (("table-scores", "edge scores"), ("table-mmd", "MMD²")):
        for found in compared(experiment(name), cells[name]):
            if found.title == title:
                parts.append(f"{found.good} of {found.total} {words}")
    if not parts:
        return f"The {title} has not been measured yet."
    return f"The {title} matches or beats the published GLN in {' and '.join(parts)}."


def _delaunay(cells: Cells) -> list[str]:
    one, parts = experiment("benchmark-delaunay"), []
    for column in (column for group in one.columns.values() for column in group):
        ours = mean_of(cells[one.name], f"set/{column}/gln", "dice")
        if ours is not None:
            best, name = max(
                (max(_bounds(numbers[column][0])), name) for name, numbers in one.published.items()
            )
            word = "above" if ours > best else "not above"
            parts.append(f"{short(ours)} ({columns()[column].title}), {word} {name} (at most {best})")
    note = "the published F1 are bounds derived from an accuracy"
    return [f"Beyond the paper, F1 on Set2Graph's benchmark: {'; '.join(parts)}; {note}."] if parts else []


def _bounds(value: float | list[float]) -> list[float]:
    return value if isinstance(value, list) else [value]

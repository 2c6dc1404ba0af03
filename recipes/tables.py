"""Write the tables of the documentation from ``results/``: python -m recipes.tables

Everything between the marks ``<!-- table: NAME -->`` and ``<!-- end -->`` of these pages is generated here, and edits
to it are overwritten; ``python -m reproduction --write-docs`` fills the others. Without results, a table and its
heading are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import notes, table
from gln.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/how-it-works.md", "docs/benchmarks.md")
MARKS = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(text: str, results: Path = ROOT / "results") -> str:
    """A page with its tables regenerated."""
    return MARKS.sub(lambda match: f"{match[1]}{TABLES[match[2]](results)}{match[3]}", text)


def steps(results: Path) -> str:
    """F1 after every step of the shipped models."""
    found = _read(results, "steps.json")
    if not found:
        return ""
    rows = found[0][1]["rows"]
    most = max(len(row["dice"]) for row in rows)
    header = ["model", "on", "graphs", *(f"A{_raised(step)}" for step in range(1, most + 1))]
    cells = []
    for row in rows:
        scores = [*map(_score, row["dice"]), *[""] * (most - len(row["dice"]))]
        cells.append([_code(row["model"]), _code(row["family"]), row["graphs"], *scores])
    return f"{_table(header, cells)}\n{_source(*found[0])}"


def ablation(results: Path) -> str:
    """One section, with its heading, for all ``ablation-FAMILY-VARIANT.json``."""
    found = _read(results, "ablation-*.json")
    if not found:
        return ""
    parts = [
        "## What each part is worth\n\nThe same short training run with one thing changed: IoU on test graphs, and the "
        "difference from the usual model. Command: `python recipes/ablation.py FAMILY --runs runs/ablation`.\n"
    ]
    for family in dict.fromkeys(facts["family"] for _, facts in found):
        runs = [(name, facts) for name, facts in found if facts["family"] == family]
        usual = next((facts["iou"] for _, facts in runs if facts["variant"] == "usual"), None)
        runs.sort(key=lambda run: (run[1]["variant"] != "usual", -run[1]["iou"]))
        cells = [
            [
                f"[{facts['variant']}](../results/{name})",
                f"{facts['weights']:,}".replace(",", " "),
                _score(facts["iou"]),
                "" if usual is None or facts["variant"] == "usual" else f"{facts['iou'] - usual:+.4f}",
                f"{facts['training_seconds']:.0f} s",
            ]
            for name, facts in runs
        ]
        steps_, device = runs[0][1]["steps"], runs[0][1]["device"]
        title = f"**`{family}`**, {steps_} optimiser steps, {device}:"
        parts.append(f"{title}\n\n{_table(['', 'weights', 'IoU', 'difference', 'training'], cells)}")
        for _, facts in runs:
            parts += _by(facts, "by_candidates") + _by(facts, "by_steps")
    return "\n".join(parts)


def _by(facts: dict[str, Any], key: str) -> list[str]:
    """The same weights with other numbers of candidates or steps."""
    if key not in facts:
        return []
    if key == "by_steps":
        header, rows = ["steps run", "IoU"], [[step, _score(iou)] for step, iou in facts[key].items()]
    else:
        header = ["candidates", "candidate recall", "IoU"]
        rows = [
            [row["candidates"], *map(_score, (row["candidate_recall"], row["iou"]))] for row in facts[key]
        ]
    return [
        f"*{facts['variant']}* on `{facts['family']}`, the same weights run with other settings:\n\n"
        f"{_table(header, rows)}"
    ]


def benchmarks(results: Path) -> str:
    """One section for each ``bench-NAME.json``."""
    parts = []
    for name, facts in _read(results, "bench-*.json"):
        if rows := table(facts):
            text = "\n\n".join([*notes(facts), _table(rows[0], rows[1:])])
            parts.append(f"## {Path(name).stem.removeprefix('bench-')}\n\n{text}\n{_source(name, facts)}")
    return "\n".join(parts)


TABLES = {"steps": steps, "ablation": ablation, "benchmarks": benchmarks}


def _read(results: Path, pattern: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (path.name, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(results.glob(pattern))
    ]


def _source(name: str, facts: dict[str, Any]) -> str:
    return f"[{name}](../results/{name}), {facts['device']}: `{facts['command']}`\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _score(value: float) -> str:
    return f"{value:.4f}"


def _code(text: str) -> str:
    return f"`{text}`"


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def main() -> None:
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        write_atomically(path, render(text).encode())
        print(f"{page}: {'unchanged' if render(text) == text else 'updated'}")


if __name__ == "__main__":
    main()

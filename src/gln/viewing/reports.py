"""The report of a run: one page with its curves, scores, test graphs and settings, and the command to repeat it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gln.evaluation.kinds import NONE, TypeTable
from gln.training.config import FitConfig
from gln.viewing.pages import embed, pack, write_html
from gln.workflows.judge import Gallery, Judged, RunReport
from gln.workflows.runs import COMFORT, RunFacts, command_of

GALLERY = 1_200_000  # the most characters of the packed graphs


def write_report(path: Path | str, report: RunReport) -> Path:
    """Write the report of a run, from :func:`gln.workflows.judge.judge_run`, as one self-contained page."""
    scripts = ["chart.js", "tile.js"]
    return write_html(path, "report", scripts, report_content(report), str(report.facts.run))


def report_content(report: RunReport) -> dict[str, Any]:
    """Everything that a report shows, as plain data."""
    facts, judged, gallery = report.facts, report.judged, report.gallery
    starts = facts.environment.get("starts") or []
    made = {name: facts.model[name] for name in ("versions", "commit") if name in facts.model}
    return {
        "title": str(facts.run),
        "method": facts.method,
        "state": _state(facts),
        "history": facts.history,
        "rates": facts.rates(),
        "best": facts.best_epoch,
        "threshold": facts.model.get("threshold"),
        "weights": report.weights,
        "scores": None if judged is None else _scores(judged),
        "why": report.why,
        "gallery": None if gallery is None else pack_gallery(gallery),
        "data": _learned_from(facts),
        "settings": _settings(facts),
        "starts": starts or ([made] if made else []),
        "command": command_of(facts),
        "resume": facts.data != {} and not facts.finished,
    }


def _scores(judged: Judged) -> dict[str, Any]:
    scores = judged.scores
    return {
        "rows": scores.rows(),
        "notes": scores.notes,
        "rules": list(scores.rules),
        "verdict": scores.verdict if judged.paired else "",
        "types": [_type_tables(each) for each in scores.tables if isinstance(each, TypeTable)],
    }


def _type_tables(types: TypeTable) -> dict[str, Any]:
    """The scores of every type of edge, and which types were taken for which."""
    columns = types.columns()
    each = [
        [name, *(float(values[number]) for values in columns.values())]
        for number, name in enumerate(types.names)
    ]
    return {
        "names": [*types.names, NONE],
        "columns": list(columns),
        "each": each,
        "confusion": types.confusion.tolist(),
    }


def pack_gallery(gallery: Gallery) -> dict[str, Any]:
    """The gallery; if it is too large, without all steps but the last, then with only some graphs, each kind first."""
    words, views, note = gallery.words, gallery.views, gallery.note
    if not views:
        return {"words": [], "note": note}
    packed = pack(views, "")
    if len(embed(packed)) > GALLERY:
        ends = [view.seen and replace(view.seen, chances=view.seen.chances[-1:]).decided() for view in views]
        packed = pack([replace(view, seen=end) for view, end in zip(views, ends, strict=True)], "")
        note = f"{note} The steps before the last have too many edges for this page.".strip()
    sizes = [len(embed(view)) for view in packed["views"]]
    kept: list[int] = []
    turns = [words[:number].count(word) for number, word in enumerate(words)]
    for number in sorted(range(len(views)), key=lambda number: (turns[number], sizes[number])):
        if sum(sizes[i] for i in kept) + sizes[number] <= GALLERY:
            kept.append(number)
    if len(kept) < len(views):
        note = f"{note} {len(views) - len(kept)} more graphs have too many edges for this page.".strip()
    kept.sort()
    packed["views"] = [packed["views"][i] for i in kept]
    return packed | {"words": [words[i] for i in kept], "note": note}


def _state(facts: RunFacts) -> dict[str, Any]:
    """Whether the run is finished, and a sentence about it."""
    if facts.fit is None:
        return {"finished": facts.finished, "words": "" if facts.finished else "The fit is not finished."}
    done, total = len(facts.history), facts.fit.epochs
    if facts.finished:
        stopped = f"Training stopped after {done} of {total} epochs: none of the last {facts.fit.patience} was better."
        return {"finished": True, "words": stopped if done < total else ""}
    words = f"{done} of {total} epochs are done: the run is still training or was interrupted."
    return {"finished": False, "words": words}


def _learned_from(facts: RunFacts) -> list[list[str]]:
    """What the run was trained on: rows of a name and a text."""
    data, rows = facts.data, []
    if "family" in data:
        rows.append(["family", data["family"]])
    elif "files" in data:
        rows.append(["files", "\n".join(data["files"])])
    counted = facts.config.get("data", {})
    for name, part in ({"train": counted} if facts.baseline else counted).items():
        if isinstance(part, dict):
            title = {"train": "training", "val": "validation"}.get(name, name)
            usual = {"graphs": f"{title} graphs", "sha256": f"{title} fingerprint"}
            rows += [[usual.get(key, f"{title} {key}"), _text(value)] for key, value in _flat(part)]
    recipe = facts.recipe
    for name, words in (("patches", "nodes per patch"), ("seed", "seed of the split")):
        if recipe.get(name) is not None:
            rows.append([words, _text(recipe[name])])
    rows += [[f"{name.replace('_', ' ')}, why", why] for name, why in recipe.get("reasons", {}).items()]
    return rows


def _settings(facts: RunFacts) -> list[dict[str, Any]]:
    """The configuration in groups of rows: name, value, and whether it differs from the default."""
    config = {name: value for name, value in facts.config.items() if name != "data"}
    if facts.fit is None:
        every = [[name, _text(value), False] for name, value in _flat(config)]
        return [{"name": facts.method, "rows": every}]
    usual = vars(FitConfig())
    titles = {"fit": "training", "model": str(config.get("model", {}).get("name", "model"))}
    groups = []
    for name, group in config.items():
        values = group.get("config", group) if isinstance(group, dict) else {}
        rows = [
            [key, _text(value), name == "fit" and key not in COMFORT and usual.get(key, value) != value]
            for key, value in _flat(values)
        ]
        if rows:
            groups.append({"name": titles.get(name, name), "rows": rows})
    return groups


def _flat(values: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested dicts as one list of dotted names and values."""
    rows: list[tuple[str, Any]] = []
    for name, value in values.items():
        rows += _flat(value, f"{before}{name}.") if isinstance(value, dict) else [(f"{before}{name}", value)]
    return rows


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

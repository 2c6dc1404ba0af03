"""The tables of the documentation are those that recipes/tables.py makes of results/."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.pages import ROOT


def load(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / f"recipes/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load("tables")


@pytest.mark.parametrize("page", tables.PAGES)
def test_pages_hold_what_was_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tables.MARKS.search(text)
    assert tables.render(text) == text, "run python -m recipes.tables"


def test_every_table_has_a_place() -> None:
    placed = [
        name for page in tables.PAGES for _, name, _ in tables.MARKS.findall((ROOT / page).read_text("utf-8"))
    ]
    assert sorted(placed) == sorted(tables.TABLES)


def variant(name: str, iou: float, **more: Any) -> dict[str, Any]:
    facts = {"family": "delaunay:points=50", "variant": name, "weights": 638009, "steps": 1500}
    return facts | {"device": "a GPU", "iou": iou, "training_seconds": 61.3} | more


def test_ablations_get_a_section_once_they_are_measured(tmp_path: Path) -> None:
    assert tables.ablation(tmp_path) == ""
    rows = [{"candidates": 8, "candidate_recall": 0.9, "iou": 0.8}]
    runs = [
        variant("usual", 0.99, by_candidates=rows),
        variant("no mixing", 0.5),
        variant("shared weights", 0.98, by_steps={"3": 0.97}),
    ]
    for number, facts in enumerate(runs):
        (tmp_path / f"ablation-{number}.json").write_text(json.dumps(facts))
    lines = tables.ablation(tmp_path).splitlines()
    assert lines[0].startswith("## ")
    assert "| [usual](../results/ablation-0.json) | 638 009 | 0.9900 |  | 61 s |" in lines
    assert "| [no mixing](../results/ablation-1.json) | 638 009 | 0.5000 | -0.4900 | 61 s |" in lines
    assert lines.index("| 8 | 0.9000 | 0.8000 |") < lines.index("| 3 | 0.9700 |")


def test_benchmarks_of_any_form_get_a_table(tmp_path: Path) -> None:
    with_peer = {
        "ours_seconds": 0.5,
        "peer_seconds": 1.0,
        "ratio": 2.0,
        "settings": {"nodes": 3, "peer": "slow"},
    }
    facts = {"command": "python -m benchmarks one", "device": "CPU"}
    (tmp_path / "bench-one.json").write_text(json.dumps(facts | with_peer))
    rows = [{"points": 1000, "seconds": 1.5, "more": {}}, {"points": 2000, "seconds": 3.0, "f1": 0.99}]
    (tmp_path / "bench-two-things.json").write_text(json.dumps(facts | {"rows": rows}))
    first, second = tables.benchmarks(tmp_path).split("## ")[1:]
    assert first.startswith("one\n\nPeer: slow.\n")
    assert "| 3 | 0.5 s | 1 s | 2.0× |" in first
    assert second.startswith("two-things\n")
    assert "| points | seconds | f1 |" in second
    assert "| 1 000 | 1.5 |  |" in second

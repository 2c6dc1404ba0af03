"""The folder of a fit, and the run that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from gln.baselines.base import Baseline
from gln.errors import GLNError
from gln.graphs import as_graphs
from gln.training.data import describe
from gln.training.tensors import clear_disk_errors, read_json, write_json


def run_facts(model: Baseline, graphs: Sequence[Data], seed: int) -> dict[str, Any]:
    """Everything that determines what a fit learns, as plain data."""
    facts = {"baseline": model.name, **model.settings(), "seed": seed, "data": describe(as_graphs(graphs))}
    plain: dict[str, Any] = json.loads(json.dumps(facts))  # as it will be read back: tuples become lists
    return plain


def check_folder(folder: Path, facts: dict[str, Any], free: Sequence[str] = ()) -> None:
    """Refuse a folder that holds a run with other ``facts``; those in ``free`` may differ."""
    path = folder / "config.json"
    if not path.exists():
        return
    saved = read_json(path)
    for name, value in facts.items():
        if name not in free and saved.get(name) != value:
            raise GLNError(
                f"The run in {folder} began with {name}={saved.get(name)!r}, now it is {value!r}; "
                "resume with the same value or choose another folder."
            )


def mark_folder(folder: Path, facts: dict[str, Any]) -> None:
    """Create the folder and record which run it belongs to."""
    with clear_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", facts)

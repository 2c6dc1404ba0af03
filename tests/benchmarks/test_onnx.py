"""What was measured of exported models covers the shipped ones."""

from __future__ import annotations

import json
from pathlib import Path

from gln.adapters.onnx import TOLERANCE
from gln.storage.models import saved_facts, shipped

RESULTS = Path(__file__).parents[2] / "results"


def test_every_shipped_model_says_in_onnxruntime_what_it_says_in_torch() -> None:
    """A model that draws graphs at random is not exported."""
    rows = [row for path in RESULTS.glob("bench-onnx*.json") for row in json.loads(path.read_text())["rows"]]
    for name in shipped():
        if saved_facts(name)["model"] != "GraphFlow":
            own = {row["nodes"]: row["largest_difference"] for row in rows if row["model"] == name}
            assert {1, 2, 3, 17, 128, 129, 300} <= set(own), f"python -m benchmarks onnx --models {name}"
            assert max(own.values()) < TOLERANCE

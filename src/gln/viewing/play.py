"""``play.html``: one page in which points are placed and dragged, and a trained GLN says at once what joins them.

The model runs in the browser: its weights, the arithmetic (``page/engine.c``, compiled to ``engine.wasm``) and the page
are in one file, which opens without a server and makes no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.viewing.pages import encode, offered, write_html
from gln.viewing.style import GROUPS
from gln.workflows.playable import Playable


def write_play(path: Path | str, models: Sequence[Playable], title: str = "gln play") -> Path:
    """Write a page with ``models`` to choose from."""
    if not models:
        raise GLNError("Got no models; a page to play with needs at least one.")
    for one in models:
        one.check()
    thresholds = offered(one.model.threshold for one in models)
    content = {
        "title": title,
        "thresholds": thresholds.astype(float).tolist(),
        "groups": GROUPS,
        "wasm": encode(np.frombuffer((files("gln.viewing") / "page" / "engine.wasm").read_bytes(), np.uint8)),
        "models": [pack_model(one, thresholds) for one in models],
    }
    scripts, worker = ["viewer.js", "delaunator.js"], ["engine.js", "worker.js"]
    return write_html(path, "play", scripts, content, title, styles=["page.css"], worker=worker)


def pack_model(one: Playable, thresholds: np.ndarray) -> dict[str, Any]:
    """The model as plain data."""
    tensors, parts, place = {}, [], 0
    for name, weight in one.model.state_dict().items():
        tensors[name] = [place, *weight.shape]
        parts.append(weight.float().numpy(force=True).ravel())
        place += weight.numel()
    return {
        "name": one.name,
        "dimensions": one.model.config["pos_channels"],
        "truth": one.truth,
        "own": int(np.abs(thresholds - np.float32(one.model.threshold)).argmin()),
        "config": one.model.config,
        "tensors": tensors,
        "weights": encode(np.concatenate(parts).astype("<f4")),
        "examples": [encode(points.astype("<f4")) for points in one.examples],
    }

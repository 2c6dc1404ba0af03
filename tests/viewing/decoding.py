"""A page read back in Python, as its own program reads it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gln.graphs.record import Graph
from gln.viewing import Seen


def data_of(page: Path) -> dict[str, Any]:
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL
    )
    return json.loads(text)


def array(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def pairs(view: dict[str, Any]) -> np.ndarray:
    """``[m, 2]``."""
    return np.stack([array(view["source"], "<u2"), array(view["target"], "<u2")], axis=1).astype(np.int64)


def levels(view: dict[str, Any]) -> np.ndarray:
    """``[steps, m]``, whole numbers."""
    kind = "<u2" if view["levels"] > 255 else "u1"
    return array(view["chances"], kind).reshape(view["steps"], -1).astype(np.int64)


def true(view: dict[str, Any]) -> np.ndarray:
    """``[m]`` bool."""
    bits = np.unpackbits(array(view["true"], "u1"), bitorder="little", count=len(pairs(view)))
    return bits.astype(bool)


def cut(data: dict[str, Any], view: dict[str, Any], index: int) -> int:
    return int(np.floor(data["thresholds"][index] * view["levels"] + 0.5))


def seen_of(pairs: np.ndarray, chances: np.ndarray, threshold: float = 0.5) -> Seen:
    """A prediction of ``pairs [m, 2]`` with ``chances [steps, m]``."""
    return Seen(Graph(edge_index=torch.from_numpy(pairs.T)), chances, threshold)

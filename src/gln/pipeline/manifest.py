"""Everything that determines the output of a prediction, as plain data: runs with equal manifests can share parts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from gln.baselines import Baseline
from gln.io.images import labels_of
from gln.io.tables import edges_of
from gln.pipeline import windows
from gln.pipeline.predicting import Job
from gln.training.facts import versions

FORMAT = "gln parts 1"


def edge_tables(job: Job) -> list[Path]:
    """The tables of true edges that are read with the files of ``job``."""
    return list(dict.fromkeys(found for path in job.paths if (found := edges_of(path, job.options))))


def manifest(job: Job) -> dict[str, Any]:
    """Model, options and input of ``job``."""
    options = {name: str(value) for name, value in asdict(job.options).items()}
    labels = [found for path in job.paths if (found := labels_of(path, job.options))]
    beside = [*edge_tables(job), *labels, *([] if job.known is None else [job.known])]
    return {
        "format": FORMAT,
        "model": _fingerprint(job.model),
        "options": options | asdict(job.choice),
        "files": len(job.paths),
        "sizes, times or names of files": _digest([_stamp(path) for path in job.paths]),
        "tables of edges or labels": _digest([_stamp(path) for path in beside]),
        "device": _device(job.model),
        "windows": [windows.BLOCK, windows.WINDOW, windows.WINDOW_NODES],
        "versions": {name: versions().get(name) for name in ("gln", "torch")},
    }


def _stamp(path: Path) -> list[Any]:
    try:
        found = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), found.st_size, found.st_mtime_ns]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _fingerprint(model: Any) -> str:
    """The fingerprint of all weights and settings of a model or baseline."""
    module = isinstance(model, nn.Module)
    if not module and not isinstance(model, Baseline):
        raise TypeError(
            f"{type(model).__name__} is neither a model nor a baseline that can be compared with another."
        )
    facts = [type(model).__name__, repr(model.config if module else model.settings())]
    digest = hashlib.sha256(json.dumps([*facts, repr(getattr(model, "threshold", None))]).encode())
    state = model.state_dict() if module else model.state()
    for name in sorted(state):
        digest.update(f"{name} {state[name].dtype} {list(state[name].shape)}".encode())
        digest.update(state[name].detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _device(model: Any) -> str:
    weight = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return "cpu" if weight is None else weight.device.type

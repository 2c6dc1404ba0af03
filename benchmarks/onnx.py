"""Exported models in onnxruntime against the models themselves in torch: differences, times and sizes of files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import torch

from benchmarks.common import threads, timed
from gln.adapters.onnx import TOLERANCE, difference, export, random_sets
from gln.errors import GLNError
from gln.models import GraphFlow
from gln.storage.models import load_model, shipped
from gln.storage.onnx import load_onnx

SEED = 0


def run(
    models: tuple[str, ...] = (),
    sizes: tuple[int, ...] = (1, 2, 3, 17, 64, 128, 129, 200, 300),
    repeats: int = 3,
) -> dict[str, Any]:
    """Export models, and compare two random sets of every size, on one thread.

    Args:
        models: which shipped models; all that predict if none is named.
        sizes: numbers of nodes; the second set has half as many.
        repeats: how many times each is timed; the medians count.
    """
    rows = []
    with TemporaryDirectory(prefix="gln-") as place, threads(1), torch.no_grad():
        for name in models or shipped():
            model = load_model(name)
            if isinstance(model, GraphFlow):
                continue  # draws in many steps: nothing to export
            begun = process_time()
            files, seconds = timed(partial(export, model, Path(place) / f"{name}.onnx"))
            processor = process_time() - begun
            exported = load_onnx(files[0])
            for nodes in sizes:
                batch = random_sets(model, nodes)
                ours, theirs = model(batch), exported(batch)
                worst = difference(ours, theirs)
                if worst > TOLERANCE:
                    raise GLNError(f"{name} differs from torch by {worst:.1e} at {nodes} nodes.")
                times = [
                    median(timed(partial(one, batch))[1] for _ in range(repeats)) for one in (exported, model)
                ]
                rows.append(
                    {
                        "model": name,
                        "nodes": nodes,
                        "largest_difference": worst,
                        "ours_seconds": times[0],
                        "peer_seconds": times[1],
                        "ratio": times[1] / times[0],
                        "megabytes": sum(file.stat().st_size for file in files) / 1e6,
                        "export_seconds": seconds,
                        "export_processor_seconds": processor,
                    }
                )
    return {
        "settings": {"peer": "torch", "ours": "onnxruntime, one thread", "seed": SEED, "repeats": repeats},
        "rows": rows,
    }

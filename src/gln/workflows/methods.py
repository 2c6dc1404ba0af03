"""A trained model or baseline, ready to use: loaded, on a device, and asked whether it can read a set of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from gln.errors import GLNError, instead
from gln.graphs.record import Graph
from gln.later import torch
from gln.models import MODELS
from gln.models.settings import misfit, unread
from gln.registry import parse_spec, write_spec
from gln.storage.models import find_saved, load_model, saved_facts

if TYPE_CHECKING:
    from torch import nn

    from gln.baselines import Predictor, Sampler

# Settings of a model that its training graphs determine.
FROM_DATA = (
    "nodes",
    "in_channels",
    "pos_channels",
    "x_mean",
    "x_std",
    "edge_types",
    "directed",
    "edge_weights",
    "node_types",
)

T = TypeVar("T")


def load(path: Path | str) -> nn.Module | Predictor | Sampler:
    """Load the model or baseline saved in a folder, such as a run, a shipped one by its name, or an .onnx file."""
    folder = find_saved(path)
    if "baseline" not in saved_facts(folder):
        return load_model(folder)
    from gln.baselines import load_baseline  # here, as who loads a model should not wait for the baselines

    return cast("Predictor | Sampler", load_baseline(folder))


def load_for(purpose: Literal["predict", "sample"], path: Path | str) -> Any:
    """As :func:`load`; refuse a baseline that cannot serve ``purpose``. A model serves both."""
    found = load(path)
    if getattr(found, "kind", purpose) != purpose:
        what = (
            "samples new graphs but does not predict them from points; see gln generate"
            if purpose == "predict"
            else "predicts graphs from points but does not sample new ones; see gln evaluate and gln predict"
        )
        raise GLNError(f"{path} holds {found.name}, which {what}.")
    return found


def find_method(spec: str) -> tuple[str, bool]:
    """``spec`` with its registered name, whatever its case, and whether it is a baseline; settings are checked."""
    from gln.baselines import BASELINES, baseline  # as in load

    asked, settings = parse_spec(spec)
    names = {name.lower(): name for name in (*MODELS, *BASELINES)}
    if asked.lower() not in names:
        known = (*sorted(MODELS), *sorted(BASELINES))
        raise GLNError(f"There is no model {asked!r}; {instead(asked, known)}")
    name = names[asked.lower()]
    if name in BASELINES:
        baseline(spec)
    else:
        MODELS.find(spec)
    return write_spec(name, settings), name in BASELINES


def put_on(model: T, name: str, local: int | None = None) -> T:
    """Move ``model`` to the device ``name``: ``cpu``, ``cuda``, ``cuda:1``, …, or ``auto`` for a GPU if there is one.

    Of several processes on a machine, process ``local`` takes the GPU with that number. A baseline is left alone: it
    chooses its own device.
    """
    if not isinstance(model, torch.nn.Module):
        return model
    wanted = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    if local is not None and ":" in wanted:
        raise GLNError(
            f"Got the device {name!r} for several processes; choose cuda, and each takes its own GPU."
        )
    if local is not None and wanted == "cuda" and torch.cuda.is_available():
        wanted = f"cuda:{local % torch.cuda.device_count()}"  # a process may see only its own GPU
    try:
        return model.to(torch.device(wanted))
    except (RuntimeError, AssertionError, NotImplementedError):
        # There is no such device, or torch was built without it.
        choice = "auto, cpu or cuda" if torch.cuda.is_available() else "auto or cpu"
        raise GLNError(f"The device {name!r} cannot be used here; choose {choice}.") from None


def out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` means out of memory, which torch reports as a plain RuntimeError."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def coinciding(model: Any, graph: Graph) -> int:
    """How many nodes have exactly the position of another one, and its features if the model reads them."""
    read = {name: rows for name, rows in graph.rows().items() if name not in unread(model, graph)}
    if not graph.widths[0] or "pos" not in read:
        return 0
    rows = torch.cat(list(read.values()), dim=1).numpy() + 0.0  # so that -0.0 is 0.0
    whole = rows.view(f"V{rows.itemsize * rows.shape[1]}")  # much faster than unique rows
    counts = np.unique(whole, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def check_fit(model: Any, graph: Graph, name: str) -> None:
    """Refuse nodes that the model cannot read."""
    wrong = misfit(model, graph)
    if wrong is not None:
        raise GLNError(f"{name}: {wrong}")

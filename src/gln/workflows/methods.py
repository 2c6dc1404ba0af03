"""A trained model or baseline, ready to use: loaded, on a device, asked what it reads and what it says of edges.

What a command asks of it is checked by its settings alone, before it is loaded: torch takes seconds.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from gln.decoding.valences import ELEMENTS
from gln.errors import GLNError
from gln.files import apart_from, open_regular
from gln.graphs.convert import rename_types
from gln.graphs.record import KINDS, NAMES, TYPES, Graph
from gln.io import EdgeTable, Item, ReadOptions, find_files
from gln.io.molfiles import MOLECULES
from gln.io.reading import GLANCE, reasons_against
from gln.io.streams import arrow
from gln.io.writing import check_output
from gln.later import torch
from gln.models import MODELS
from gln.models.settings import misfit, unfit, unread
from gln.registry import parse_spec, write_spec
from gln.storage.facts import as_kind, read_facts
from gln.storage.models import find_saved, load_model, saved_facts
from gln.workflows import Say, Skip, silent
from gln.workflows.forms import knows_molecules

if TYPE_CHECKING:
    from torch import nn

    from gln.baselines import Predictor, Sampler
    from gln.models.contract import Kinds

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
    "marginal",
)

RECIPE = "recipe.json"  # of a run: how its files were read
# By the flag that chooses it: the setting of a model that predicts it, its value in a model that does not, and words.
FLAGS: dict[str, tuple[str, int, str]] = {
    "types": ("edge_types", 1, "types of edges"),
    "weights": ("edge_weights", False, "weights"),
    "directed": ("directed", False, "directions"),
    "node_types": ("node_types", 0, "types of nodes"),
}

T = TypeVar("T")


def load(path: Path | str) -> nn.Module | Predictor | Sampler:
    """Load the model or baseline saved in a folder, such as a run, a shipped one by its name, or an .onnx file."""
    folder = find_saved(path)
    if "baseline" not in saved_facts(folder):
        return load_model(folder)
    from gln.baselines import load_baseline  # here, as who loads a model should not wait for the baselines

    return cast("Predictor | Sampler", load_baseline(folder))


def load_for(purpose: Literal["predict", "sample"], path: Path | str) -> nn.Module | Predictor | Sampler:
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
    from gln.baselines.base import BASELINES, MOVED, baseline  # as in load

    asked, settings = parse_spec(spec)
    if asked.lower() in {*BASELINES, *MOVED}:
        baseline(spec)
        return write_spec(asked.lower(), settings), True
    return write_spec(*MODELS.find(spec, sorted(BASELINES))), False


def check_device(name: str) -> None:
    """Refuse what is not the name of a device; whether this machine has it, torch says."""
    if not re.fullmatch("auto|(cpu|cuda|mps|xpu|hpu|xla)(:[0-9]+)?", name):
        raise GLNError(
            f"Got the device {name!r}; expected auto, cpu or cuda, or cuda:1 for one of several GPUs."
        )


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


def as_molecules(output: Path) -> bool:
    """Whether this is a file of molecules."""
    return output.suffix.lower() in MOLECULES


def is_folder(output: Path) -> bool:
    """Whether this is a folder of edges, there already or by its name."""
    return output.is_dir() or not output.suffix


def check_prediction(
    model: str,
    files: Sequence[str],
    output: Path,
    options: ReadOptions,
    known: Path | None,
    clustered: bool,
    force: bool,
    device: str,
    skip: Skip,
) -> list[Path]:
    """The files of a prediction, of which ``model`` can read some; refuse what cannot be written, or is no table."""
    check_device(device)
    given = [Path(word) for word in files if Path(word).is_file()]
    if apart_from(given, [output]) != given:
        raise GLNError(f"{output} is both input and output; choose another name for the output.")
    if is_folder(output):
        if clustered:
            raise GLNError(f"Got the folder {output}; clusters are written to .csv or .png.")
        arrow()
    paths = find_files(files)
    if known is not None:
        open_regular(known).close()
        if known.stat().st_size <= GLANCE:
            EdgeTable(known, options)
    if nodes := apart_from(paths, (output, known)):
        nothing = "Nothing can be predicted; the reasons are above."
        check_readable(nodes, options, unfit_for(model), skip, nothing)
    if not is_folder(output):
        check_output(output, force, clustered)
    return paths


def check_readable(
    paths: Sequence[Path],
    options: ReadOptions,
    reason: Callable[[Item], str | None],
    skip: Skip,
    nothing: str,
) -> None:
    """Refuse files if there is a ``reason`` against every one, or it cannot be read; ``nothing`` says so of several."""
    reasons = reasons_against(paths, options, reason)
    if len(reasons) == 1:
        raise GLNError(str(reasons[0]))
    for what in reasons:
        skip(what)
    if reasons:
        raise GLNError(nothing)


def unfit_for(model: str | None) -> Callable[[Item], str | None]:
    """Why the saved ``model`` cannot read an item, as far as its settings say."""
    facts = {} if model is None else saved_facts(model)
    config = facts.get("config")
    told = config if isinstance(config, dict) and "nodes" not in config else {}
    return lambda item: unfit(told, item.graph)


def options_for(model: str, options: ReadOptions) -> ReadOptions:
    """``options`` for files that the saved ``model`` is asked about.

    Kinds are read as its run has read them, where a file has them, unless ``options`` say otherwise; a flag for
    something that the model does not predict is refused.
    """
    folder = find_saved(model)
    facts = saved_facts(folder)
    config = facts["config"] if isinstance(facts.get("config"), dict) else {}
    for flag, (setting, plain, words) in FLAGS.items():
        compared = flag == "weights" and options.threshold_weights is not None  # with a number, not learned
        told = "baseline" in facts or config.get(setting, plain) != plain
        if getattr(options, flag) and not told and not compared:
            raise GLNError(f"{model} predicts no {words}; leave out --{flag.replace('_', '-')}.")
    path = folder / RECIPE
    read = as_kind(read_facts(path).get("read", {}), ReadOptions, path) if path.is_file() else ReadOptions()
    more: dict[str, Any] = {name: getattr(read, name) for name in (*FLAGS, "threshold_weights")}
    more |= {"directed": True} if config.get("directed") is True else {}
    if options.elements is None:
        more["elements"] = read.elements
        more |= {"elements": ELEMENTS, "only_elements": True} if knows_molecules(config) else {}
    more = {name: value for name, value in more.items() if value and not getattr(options, name)}
    return replace(options, **more, kinds_if_there=bool(set(more) & set(FLAGS)))


def put_in_words(graph: Graph, kind: str) -> None:
    """Make words of types that are numbers, in place."""
    if f"{kind}_names" not in graph:
        used, numbers = graph[kind].unique(return_inverse=True)
        graph[kind], graph[f"{kind}_names"] = numbers, tuple(map(str, used.tolist()))


def comparable(model: Any, graph: Graph) -> Graph:
    """``graph`` with only the kinds that ``model`` predicts, its types numbered as the model numbers them."""
    from gln.models.contract import kind_names, kinds_of  # here, as it loads torch

    if getattr(model, "sees_kinds", False):  # a baseline that takes them as they are
        return graph
    kinds, names, out = kinds_of(model), kind_names(model), copy.copy(graph)
    for name in set(KINDS) - set(kinds.learned):
        out.__dict__.pop(name, None)
        out.__dict__.pop(f"{name}_names", None)
    for kind in set(TYPES) & set(kinds.learned) & set(out.keys()):
        known, words = getattr(kinds, f"{kind}s"), names.get(f"{kind}_names")
        if words is None and f"{kind}_names" in out:
            raise GLNError(f"its {kind} is given in words, but the model knows the numbers 0 to {known - 1}.")
        if words is not None:
            put_in_words(out, kind)
            try:
                rename_types(out, kind, words)
            except GLNError as error:
                raise GLNError(f"it has a type that was never seen in training. {error}") from None
        if len(out[kind]) and (most := int(out[kind].max())) >= known:
            raise GLNError(f"its {kind} {most} was never seen in training, which had 0 to {known - 1}.")
    return out


def compared(model: Any, graph: Graph, name: str = "", say: Say = silent) -> Graph:
    """As :func:`comparable`; if that cannot be, which is said, without kinds, though a directed graph stays so."""
    try:
        return comparable(model, graph)
    except GLNError as error:
        say(f"{name}: {error} Its kinds are not scored.")
    plain = copy.copy(graph)
    for kind in (*KINDS, *NAMES):
        plain.__dict__.pop(kind, None)
    return plain


def kinds_in_words(kinds: Kinds, graphs: Sequence[Graph]) -> tuple[str, list[str]]:
    """What a model with these ``kinds`` predicts beyond edges, and what else ``graphs`` say, which it does not use."""
    from gln.models.contract import kinds_in

    there, told, unused = kinds_in(graphs), [], []
    for setting, plain, what in FLAGS.values():
        count, names = getattr(kinds, setting), f"{setting.removesuffix('s')}_names"
        if count != plain:
            known = next((graph[names] for graph in graphs if names in graph), ())
            more = f" ({', '.join(known)})" if known else ""
            told.append(what if isinstance(plain, bool) else f"{count} {what}{more}")
        elif getattr(there, setting) != plain:
            unused.append(what)
    return "; ".join(told), unused

"""What a command is asked for, checked by name before anything is loaded: torch alone takes seconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from gln.errors import GLNError
from gln.families import parse_family
from gln.files import apart_from, open_regular, same_place
from gln.graphs.check import check_whole
from gln.io import EdgeTable, Item, ReadOptions, find_files
from gln.io.parquet import arrow
from gln.io.reading import GLANCE, reasons_against
from gln.io.writing import check_output
from gln.models.settings import unfit
from gln.seeds import check_seed
from gln.storage.models import find_saved, saved_facts
from gln.workflows import Skip, silent
from gln.workflows.runs import is_run
from gln.workflows.training_data import NO_EDGES, NONE_LABELLED, find_data, is_family


def check_graphs(words: Sequence[str], count: int | None = None, seed: int = 0) -> None:
    """Refuse words that name neither a family, from which ``count`` graphs are drawn by ``seed``, nor files."""
    if not is_family(words):
        find_data(words)
        return
    parse_family(words[0])
    if count is not None:
        check_whole("sample", "count", count, 1)
    check_seed("sample", seed)


def check_labelled(paths: Sequence[Path], options: ReadOptions, skip: Skip, model: str | None = None) -> None:
    """Refuse files of which none has true edges, or none that ``model`` can read."""
    fits = _fits(model)

    def reason(item: Item) -> str | None:
        return fits(item) if item.labelled else NO_EDGES

    _refuse(paths, options, reason, skip, NONE_LABELLED)


def check_device(name: str) -> None:
    """Refuse what is not the name of a device; whether this machine has it, torch says."""
    if not re.fullmatch("auto|(cpu|cuda|mps|xpu|hpu|xla)(:[0-9]+)?", name):
        raise GLNError(
            f"Got the device {name!r}; expected auto, cpu or cuda, or cuda:1 for one of several GPUs."
        )


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
    if any(Path(word).is_file() and same_place(Path(word), output) for word in files):
        raise GLNError(f"{output} is both input and output; choose another name for the output.")
    in_folder = output.is_dir() or not output.suffix
    if in_folder and clustered:
        raise GLNError(f"Got the folder {output}; clusters are written to .csv or .png.")
    if in_folder:
        arrow()
    paths = find_files(files)
    if known is not None:
        open_regular(known).close()
        if known.stat().st_size <= GLANCE:
            EdgeTable(known, options)
    if nodes := apart_from(paths, (output, known)):
        _refuse(nodes, options, _fits(model), skip, "Nothing can be predicted; the reasons are above.")
    if not in_folder:
        check_output(output, force, clustered)
    return paths


def _refuse(
    paths: Sequence[Path],
    options: ReadOptions,
    reason: Callable[[Item], str | None],
    skip: Skip,
    nothing: str,
) -> None:
    reasons = reasons_against(paths, options, reason)
    if len(reasons) == 1:
        raise GLNError(str(reasons[0]))
    for what in reasons:
        skip(what)
    if reasons:
        raise GLNError(nothing)


def _fits(model: str | None) -> Callable[[Item], str | None]:
    """Why the saved ``model`` cannot read an item, as far as its settings say."""
    facts = {} if model is None else saved_facts(model)
    config = facts.get("config")
    told = config if isinstance(config, dict) and "nodes" not in config else {}
    return lambda item: unfit(told, item.graph)


def check_view(
    source: Sequence[str],
    count: int,
    model: str | None,
    predicted: Path | None,
    seed: int = 0,
    options: ReadOptions | None = None,
) -> None:
    """Refuse graphs to view that are nowhere, a file that cannot be read, and a page with two predictions."""
    if not source:
        raise GLNError("Got nothing to show; name a family, files or a run.")
    if count < 1:
        raise GLNError(f"Got count={count}; expected at least 1.")
    if model is not None and predicted is not None:
        raise GLNError(
            "Got both --model and --predicted; a page shows only one of them: leave the other out."
        )
    stored = all(word.endswith(".safetensors") for word in source)
    if not stored and not (len(source) == 1 and is_run(source[0])):
        check_graphs(source, count, seed)
        if options is not None and not is_family(source):
            _refuse(find_data(source), options, lambda item: None, silent, "None of the files can be read.")
    if predicted is not None:
        predicted.stat()
    if model is not None:
        find_saved(model)

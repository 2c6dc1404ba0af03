"""What a prediction is asked for, checked by name before anything is loaded: torch alone takes seconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from gln.errors import GLNError
from gln.files import apart_from, open_regular, same_place
from gln.io import EdgeTable, Item, ReadOptions, find_files
from gln.io.parquet import arrow
from gln.io.reading import GLANCE, reasons_against
from gln.io.writing import check_output
from gln.models.settings import unfit
from gln.storage.models import saved_facts
from gln.workflows import Skip


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
        nothing = "Nothing can be predicted; the reasons are above."
        check_readable(nodes, options, unfit_for(model), skip, nothing)
    if not in_folder:
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

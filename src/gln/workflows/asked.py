"""What a command is asked for, checked by name before anything is loaded: torch alone takes seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs.check import check_whole
from gln.seeds import check_seed
from gln.storage.models import find_saved
from gln.workflows.runs import is_run
from gln.workflows.training_data import find_data, is_family


def check_graphs(words: Sequence[str], count: int | None = None, seed: int = 0) -> None:
    """Refuse words that name neither a family, from which ``count`` graphs are drawn by ``seed``, nor files."""
    if not is_family(words):
        find_data(words)
        return
    parse_family(words[0])
    if count is not None:
        check_whole("sample", "count", count, 1)
    check_seed("sample", seed)


def check_view(
    source: Sequence[str], count: int, model: str | None, predicted: Path | None, seed: int = 0
) -> None:
    """Refuse graphs to view that are nowhere, and a page with two predictions."""
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
    if predicted is not None:
        predicted.stat()
    if model is not None:
        find_saved(model)

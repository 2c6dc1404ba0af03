"""Tensors and plain facts in one file, and back.

Every file of weights is a safetensors file: a JSON header, then raw numbers. Reading it runs no code, whoever wrote it.
(``torch.load`` is not used, not even with ``weights_only=True``: before torch 2.6 that could be made to run code, and
this package allows 2.4.)
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.files import digest_of, read_safetensors, write_atomically
from gln.later import safetensors, torch
from gln.storage.facts import Facts, parse_facts

# Written by versions that did not seal files: a model has its seal in model.json.
UNSEALED = ("gln model 1", "gln checkpoint 1")


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], facts: dict[str, Any]) -> None:
    """Write ``tensors`` and the JSON ``facts`` to ``path`` atomically; if the disk is full, the old file stays."""
    # Cloned, because safetensors refuses tensors that share memory, as tied weights do.
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    # One word of metadata, as safetensors writes several in any order.
    sealed = {"gln": _to_json(facts | {"sha256": _seal(facts, whole)})}
    with clear_disk_errors(path):
        write_atomically(path, safetensors.save(whole, metadata=sealed))


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], Facts]:
    """Read the tensors and facts of a file written by :func:`write_tensors`; a single changed bit is noticed."""
    try:
        tensors, header = read_safetensors(path)
    except OSError:  # FileNotFoundError, PermissionError, IsADirectoryError
        raise GLNError(f"{path} cannot be read; expected a file of weights, check the path.") from None
    except ValueError:
        raise GLNError(
            f"{path} is not a complete safetensors file: it is truncated or of another kind; copy it again or "
            "use another."
        ) from None
    if "gln" not in header:
        raise GLNError(f"{path} is a safetensors file that gln did not write; expected one saved by gln.")
    facts = parse_facts(header["gln"], path)
    seal = facts.pop("sha256", None)
    if seal is None and facts.get("format") in UNSEALED:
        return tensors, facts
    if seal != _seal(facts, tensors):
        raise GLNError(f"{path} is damaged: it is not what was written; copy it again or use another.")
    return tensors, facts


def _seal(facts: Facts, tensors: Mapping[str, torch.Tensor]) -> str:
    """A hash of all that a file holds."""
    return hashlib.sha256(f"{_to_json(facts)}{digest_of(tensors)}".encode()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that people can read, atomically."""
    with clear_disk_errors(path):
        write_atomically(path, (_to_json(value, indent=2) + "\n").encode())


def _to_json(value: Any, indent: int | None = None) -> str:
    """JSON in which NumPy's numbers, which a width read from an array is, are plain numbers."""
    return json.dumps(value, indent=indent, allow_nan=False, default=np.generic.item)


def load_weights(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Load ``tensors`` into ``model``, or say which of them does not fit."""
    check_weights(model, tensors, path)
    model.load_state_dict(dict(tensors))


def check_weights(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Refuse ``tensors`` of other names, shapes or kinds of numbers than the weights of ``model``."""
    wanted = model.state_dict()
    for name in sorted(wanted.keys() | tensors.keys()):
        ours, theirs = (_outline(group.get(name)) for group in (wanted, tensors))
        if ours != theirs:
            raise GLNError(
                f"{path} does not match the config of {type(model).__name__}: {name} is {theirs} in the "
                f"file, {ours} in the model; use the config that these weights were saved with."
            )


def _outline(tensor: torch.Tensor | None) -> str:
    """The shape, and the type unless it is a floating-point one: weights may be kept in any precision."""
    if tensor is None:
        return "absent"
    return f"{list(tensor.shape)}{'' if tensor.is_floating_point() else f' of {tensor.dtype}'}"


@contextmanager
def clear_disk_errors(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk into one clear sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GLNError(
                f"The disk is full: {path} could not be written, but what was there before is intact; "
                "free some space and resume."
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise GLNError(f"{path} cannot be written; choose a folder that you can write to.") from error
        raise

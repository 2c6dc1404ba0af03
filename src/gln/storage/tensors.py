"""Tensors and plain facts in one file, and back.

Every file of weights is a safetensors file: a JSON header, then raw numbers. Reading it runs no code, whoever wrote it.
(``torch.load`` is not used, not even with ``weights_only=True``: before torch 2.6 that could be made to run code, and
this package allows 2.4.)
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gln.errors import GLNError
from gln.files import read_safetensors, write_atomically
from gln.later import safetensors

if TYPE_CHECKING:
    from torch import Tensor, nn


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> None:
    """Write ``tensors`` and the JSON ``facts`` to ``path`` atomically; if the disk is full, the old file stays."""
    # Cloned, because safetensors refuses tensors that share memory, as tied weights do.
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    data = safetensors.save(whole, metadata={"gln": _to_json(facts)})
    with clear_disk_errors(path):
        write_atomically(path, data)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and facts of a file written by :func:`write_tensors`."""
    try:
        tensors, header = read_safetensors(path)
        facts = json.loads(header.get("gln", "null"))
    except OSError:  # FileNotFoundError, PermissionError, IsADirectoryError
        raise GLNError(f"{path} cannot be read; expected a file of weights, check the path.") from None
    except ValueError:
        raise GLNError(
            f"{path} is not a complete safetensors file: it is truncated or of another kind; copy it again or "
            "use another."
        ) from None
    if not isinstance(facts, dict):
        raise GLNError(f"{path} is a safetensors file that gln did not write; expected one saved by gln.")
    return tensors, facts


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(path.read_bytes())
    except OSError:
        raise GLNError(f"{path} cannot be read; check the path.") from None
    except ValueError:  # also bytes that are not UTF-8
        raise GLNError(
            f"{path} is not complete JSON: it is truncated or of another kind; copy it again."
        ) from None
    if not isinstance(value, dict):
        raise GLNError(f"{path} holds a JSON {type(value).__name__}; expected an object written by gln.")
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that people can read, atomically."""
    with clear_disk_errors(path):
        write_atomically(path, (_to_json(value, indent=2) + "\n").encode())


def _to_json(value: Any, indent: int | None = None) -> str:
    """JSON in which NumPy's numbers, which a width read from an array is, are plain numbers."""
    return json.dumps(value, indent=indent, allow_nan=False, default=np.generic.item)


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load ``tensors`` into ``model``, or say which of them does not fit."""
    wanted = model.state_dict()
    for name in sorted(wanted.keys() | tensors.keys()):
        ours, theirs = (list(group[name].shape) if name in group else "absent" for group in (wanted, tensors))
        if ours != theirs:
            raise GLNError(
                f"{path} does not match the config of {type(model).__name__}: {name} is {theirs} in the "
                f"file, {ours} in the model; use the config that these weights were saved with."
            )
    model.load_state_dict(dict(tensors))


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

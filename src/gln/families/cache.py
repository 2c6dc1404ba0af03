"""A cache folder of packed graphs; each file is named by a hash of everything that determines its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gln.errors import GLNError
from gln.files import write_atomically

Packed = dict[str, Tensor]


def load_or_make(folder: Path, key: dict[str, Any], make: Callable[[], Packed]) -> Packed:
    """Load the tensors stored for ``key``; make and store them if they are absent or damaged.

    Two processes may ask for the same key at once: each makes the same graphs, and one whole file remains.
    """
    description = json.dumps(key, sort_keys=True)
    fingerprint = hashlib.sha256(description.encode()).hexdigest()[:20]
    path = folder / f"{key['family']['name']}-{fingerprint}.safetensors"
    stored = _load(path, description)
    if stored is not None:
        return stored
    try:
        folder.mkdir(parents=True, exist_ok=True)  # before the work, so that a bad folder is reported at once
    except OSError as error:
        raise _unwritable(folder, error) from None
    packed = make()
    try:
        write_atomically(path, save(packed, {"key": description, "digest": _digest(packed)}))
    except OSError as error:
        raise _unwritable(folder, error) from None
    return packed


def _unwritable(folder: Path, error: OSError) -> GLNError:
    return GLNError(
        f"Cannot write to the cache folder {folder} ({error.strerror}); choose a folder that can "
        "be created and written to."
    )


def _load(path: Path, description: str) -> Packed | None:
    """The tensors in ``path``, or ``None`` if it is missing, damaged or belongs to another key."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            packed = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    intact = metadata.get("key") == description and metadata.get("digest") == _digest(packed)
    return packed if intact else None


def _digest(packed: Packed) -> str:
    """A hash of names and bytes: safetensors itself does not notice a flipped bit."""
    state = hashlib.sha256()
    for name in sorted(packed):
        state.update(f"{name} {packed[name].dtype} {tuple(packed[name].shape)}".encode())
        state.update(packed[name].contiguous().numpy().tobytes())
    return state.hexdigest()

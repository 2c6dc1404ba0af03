"""Where a result comes from: versions, commit and machine."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gln.errors import GLNError
from gln.files import write_atomically
from gln.later import torch

PACKAGES = ("gln", "torch", "torch-geometric", "lightning-fabric", "torchmetrics", "safetensors", "numpy")


@cache
def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a source tree that is not installed
            continue
    return found


@cache
def commit() -> str | None:
    """The commit of the source tree this package runs from, with ``-dirty`` if its code was changed; or ``None``."""
    try:
        # A package installed in a folder inside some other repository is not that repository's code.
        _git("ls-files", "--error-unmatch", "__init__.py")
        head = _git("rev-parse", "HEAD")
        # Programs beside the package count, new ones too; results and pages do not: a run writes them.
        changed = _git(
            "status", "--porcelain", "--untracked-files=all", "--", ".", ":(top)*.py", ":(top)*.yaml"
        )
        return f"{head}-dirty" if changed else head
    except (OSError, subprocess.SubprocessError):
        return None


def environment() -> dict[str, Any]:
    """Versions, commit, machine and time, as plain data."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "commit": commit(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def check_source(path: Path) -> None:
    """Refuse a result from code that is not committed, unless ``path`` is outside the repository or ignored by it."""
    if not (commit() or "").endswith("-dirty"):
        return
    try:
        _git("check-ignore", "--quiet", str(path.absolute()))
    except subprocess.CalledProcessError as answer:
        if answer.returncode == 1:  # not ignored; 128: outside
            raise GLNError(
                f"Got uncommitted code for {path}; expected a result that a commit can repeat: commit first, or write "
                "it outside the repository."
            ) from None


def write_result(path: Path, command: str, seed: int, measured: dict[str, Any]) -> None:
    """Write a measured result as JSON, with all that a reader needs to trust and repeat it.

    A program that takes long calls :func:`check_source` before it starts, as this does at the end.
    """
    check_source(path)
    where = environment()
    device = where["gpu"] or f"CPU, {where['threads']} threads"
    facts = {"command": command, "seed": seed, "device": device, "commit": where["commit"], **measured}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(facts | {"environment": where}, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode())


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent.parent), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()

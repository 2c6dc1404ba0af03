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

import torch

from gln.errors import GLNError
from gln.files import write_atomically

PACKAGES = (
    "gln",
    "torch",
    "torch-geometric",
    "lightning-fabric",
    "pytorch-lightning",  # where Fabric was installed as a part of it
    "torchmetrics",
    "safetensors",
    "numpy",
)
BESIDE = ("recipes", "reproduction", "benchmarks")  # code beside the package that results come from


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
    here = Path(__file__).parent.parent / "__init__.py"
    git = ["git", "-C", str(here.parent)]
    try:
        # A package installed in a folder inside some other repository is not that repository's code.
        _run([*git, "ls-files", "--error-unmatch", here.name])
        head = _run([*git, "rev-parse", "HEAD"])
        code = [".", *(f":(top){folder}" for folder in BESIDE)]
        changed = _run([*git, "status", "--porcelain", "--untracked-files=no", "--", *code])
        return f"{head}-dirty" if changed else head  # results and pages do not count: a run writes them
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


def write_result(path: Path, command: str, seed: int, measured: dict[str, Any]) -> None:
    """Write a measured result as JSON, with all that a reader needs to trust and repeat it.

    A result that is to be kept, in the repository of the code, comes from committed code only.
    """
    where = environment()
    if str(where["commit"]).endswith("-dirty") and _repository() in path.resolve().parents:
        raise GLNError(
            f"{path} would come from code that is not committed; commit it first or write elsewhere."
        )
    device = where["gpu"] or f"CPU, {where['threads']} threads"
    facts = {"command": command, "seed": seed, "device": device, "commit": where["commit"], **measured}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(facts | {"environment": where}, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode())


def _repository() -> Path:
    return Path(_run(["git", "-C", str(Path(__file__).parent), "rev-parse", "--show-toplevel"]))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()

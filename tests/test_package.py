"""The package as a whole: its public names, its speed to --help, its warnings."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import gln
from benchmarks.cold import QUICK


def test_every_public_name_exists_and_is_listed_once() -> None:
    assert sorted(name for names in gln._HOME.values() for name in names) == sorted(gln.__all__)
    for name in gln.__all__:
        assert getattr(gln, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = gln.nothing


# What is slow to import; a prediction needs torch, and the others nothing of it.
SLOW = ("torch", "scipy", "matplotlib", "networkx", "numba", "pandas", "torch_geometric")
SLOW += (
    "lightning_fabric",
    "torchmetrics",
    "torch._dynamo",
    "sympy",
    "tensorboard",
    "sklearn",
    "PIL",
    "triton",
)


def slow_imports(words: Sequence[str], folder: Path, code: int) -> tuple[list[str], str]:
    """What of ``SLOW`` a command imports in a process of its own, and what it says."""
    program = "; ".join(
        [
            "import atexit, json, sys",
            f"atexit.register(lambda: print(json.dumps([name for name in {SLOW} if name in sys.modules])))",
            "from gln.commands.cli import main",
            "main()",
        ]
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    *said, last = done.stdout.splitlines()
    return json.loads(last), "\n".join(said) + done.stderr


@pytest.fixture
def ten_points(tmp_path: Path) -> Path:
    rows = [f"{number % 3}.{number},{number % 4}.{number}" for number in range(10)]
    (tmp_path / "ten.csv").write_text("\n".join(["x,y", *rows]))
    return tmp_path


@pytest.mark.parametrize("words", QUICK)
def test_a_list_and_a_mistake_are_answered_without_torch(words: str, ten_points: Path) -> None:
    found, said = slow_imports(words.split(), ten_points, 0 if words == "list" else 2)
    assert found == []
    assert "Traceback" not in said
    assert [path.name for path in ten_points.iterdir()] == ["ten.csv"]


def test_a_prediction_imports_torch_and_nothing_else_that_is_slow(ten_points: Path) -> None:
    words = ["predict", "delaunay", "ten.csv", "-o", "edges.csv", "--device", "cpu"]
    found, said = slow_imports(words, ten_points, 0)
    assert found == ["torch"]
    assert "Wrote edges.csv" in said


def cpu_seconds(call: Callable[[], object]) -> float:
    """The least of three: how long a process waits for a core depends on what else the machine does."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return min(once() for _ in range(3))


def test_help_is_instant_and_does_not_load_torch(tmp_path: Path) -> None:
    found, said = slow_imports(["--help"], tmp_path, 0)
    assert "show" in said
    assert found == []
    least = cpu_seconds(lambda: subprocess.run([sys.executable, "-c", "import numpy, tyro"], check=True))
    assert cpu_seconds(lambda: slow_imports(["--help"], tmp_path, 0)) < 3 * least


def test_warnings_from_our_own_modules_are_errors() -> None:
    with pytest.raises(UserWarning):
        warnings.warn_explicit("ours", UserWarning, "check.py", 1, module="gln.graphs.check")

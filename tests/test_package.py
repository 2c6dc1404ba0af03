"""The package as a whole: its public names, its speed to --help, its warnings."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings

import pytest

import gln


def test_every_public_name_exists_and_is_listed_once() -> None:
    assert sorted(gln._MODULE_OF) == sorted(gln.__all__)
    for name in gln.__all__:
        assert getattr(gln, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = gln.nothing


def test_help_is_instant_and_does_not_load_torch() -> None:
    code = "; ".join(
        [
            "import sys, atexit",
            "sys.argv = ['gln', '--help']",
            "atexit.register(lambda: print('torch' in sys.modules))",
            "from gln.cli import main",
            "main()",
        ]
    )
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - start)
    assert "show" in run.stdout
    assert run.stdout.endswith("False\n")
    assert min(seconds) < 0.5


def test_warnings_from_our_own_modules_are_errors() -> None:
    with pytest.raises(UserWarning):
        warnings.warn_explicit("ours", UserWarning, "check.py", 1, module="gln.graphs.check")

"""The package as a whole: its public names, its speed to --help, its warnings."""

from __future__ import annotations

import resource
import subprocess
import sys
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
            "from gln.commands.cli import main",
            "main()",
        ]
    )
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # CPU time: how long it waits for a core depends on what else the machine does.
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert "show" in run.stdout
    assert run.stdout.endswith("False\n")
    assert min(seconds) < 0.5


def test_warnings_from_our_own_modules_are_errors() -> None:
    with pytest.raises(UserWarning):
        warnings.warn_explicit("ours", UserWarning, "check.py", 1, module="gln.graphs.check")

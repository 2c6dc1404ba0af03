"""A command of a page, run in this process: a new one would first import everything again, for seconds."""

from __future__ import annotations

import runpy
import shlex
import subprocess
from pathlib import Path

import pytest

from gln.commands import cli

LOOKING = ("head", "cat", "ls", "cut")  # commands that show what was written


def run_here(command: str) -> None:
    """``gln``, a script in Python, or a look at what was written."""
    words = shlex.split(command)
    with pytest.MonkeyPatch.context() as patch:
        if words[0] == "gln":
            patch.setattr("sys.argv", words)
            cli.main()
        elif words[0] == "python" and words[1].endswith(".py"):
            patch.setattr("sys.argv", words[1:])
            patch.syspath_prepend(Path(words[1]).parent.resolve())  # as python does
            runpy.run_path(words[1], run_name="__main__")
        else:
            assert words[0] in LOOKING, f"say in NOT_RUN why {command!r} is not run"
            subprocess.run(["bash", "-euc", command], check=True)

"""A run as ``gln train`` leaves it, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import run

QUICK = ["--accelerator", "cpu", "--no-progress", "--model", "GLN:width=8,pair_width=8,steps=2"]


def train(folder: Path, *words: str) -> None:
    """Run ``gln train`` in ``folder``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(patch, "train", *words) == 0

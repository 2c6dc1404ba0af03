"""Random weights that depend on a seed alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch's CPU numbers follow ``seed``; afterwards they go on as before, and the GPUs' are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)  # torch.manual_seed would also seed the GPUs
        yield

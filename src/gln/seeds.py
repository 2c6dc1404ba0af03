"""Seeds: one random stream per purpose, and the seed of graphs that nothing was trained on.

NumPy and torch are imported on first use: the command line names :data:`TEST_SEED` among its defaults.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gln.errors import GLNError
from gln.later import torch

SEEDS = 2**32  # how many there are

#: The seed of test graphs: training never uses it.
TEST_SEED = 1_000_003

# The first word of every stream: what it is for.
ORDER, NOISE, STEP, FRESH, GENERATE = range(1, 6)


def seed_of(purpose: int, *numbers: int) -> int:
    """A seed of 64 bits determined by the purpose and the numbers alone."""
    import numpy as np

    return int(np.random.SeedSequence([purpose, *numbers]).generate_state(1, np.uint64)[0])


def check_seed(owner: str, seed: Any) -> int:
    """``seed`` as an int, or refuse it.

    NumPy cuts numbers into words of 32 bits, so that block 0 of seed ``a + 2³² b`` would be block ``b`` of seed ``a``.
    """
    try:
        number = -1 if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < SEEDS:
        raise GLNError(f"{owner} got seed={seed!r}; expected a whole number from 0 to {SEEDS - 1}.")
    return number


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch's CPU numbers follow ``seed``; afterwards they go on as before, and the GPUs' are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)  # torch.manual_seed would also seed the GPUs
        yield

"""What the mixing is for: trained for the same seconds with a triangle product in its place, all else alike."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn
from tyro.conf import Suppress

from benchmarks.common import device_name, f1_of, fast_products, timed, weights_of
from benchmarks.time_to_accuracy import CPU, GPU, Size, sets, train_as_long
from gln.errors import GLNError
from gln.families import parse_family
from gln.models import GLN
from gln.models.pairs import Block
from gln.ops.layers import normed_linear
from gln.seeds import TEST_SEED
from gln.training import fit
from gln.training.data import RandomRotation
from gln.training.losses import Loss


class TriangleProduct(nn.Module):
    """In place of attention over third nodes: ``gate ⊙ W norm(Σ_k a_ik ⊙ b_jk)``, which is matrix products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.read, self.out = nn.Linear(width, 5 * width), nn.Linear(width, width)

    def forward(self, block: Block, around: Tensor) -> Tensor:
        a, b, open_a, open_b, gate = normed_linear(self.norm, self.read, around).chunk(5, dim=-1)
        product = triangle(block.only(a * open_a.sigmoid()), block.only(b * open_b.sigmoid()))
        return gate.sigmoid() * self.out(self.inner(product))


def triangle(a: Tensor, b: Tensor) -> Tensor:
    """``Σ_k a_ik ⊙ b_jk`` of ``[B, N, N, c]``, divided by the root of ``N``."""
    return torch.einsum("bikc,bjkc->bijc", a, b) / a.shape[1] ** 0.5


def run(
    size: Annotated[Size | None, Suppress] = None, epochs: int = 4, seed: int = 0, tests: int = 1000
) -> dict[str, Any]:
    """F1 of GLN with attention over third nodes, and of GLN with a triangle product trained for as many seconds.

    Both mix as many channels and are trained as in time-to-accuracy; the second in as many whole epochs as fit. The
    milliseconds are those of a step, with its batch and a share of the validation, in the median epoch.

    Args:
        size: the task and models; default: 50 points on a GPU, a smaller task on a CPU.
        epochs: of the first.
        seed: of weights and batches.
        tests: number of test sets.
    """
    if epochs < 1 or tests < 1:
        raise GLNError(f"Got epochs={epochs}, tests={tests}; expected at least 1 of each.")
    size = size or (GPU if torch.cuda.is_available() else CPU)
    train, val = sets(size, size.sets)
    settings: dict[str, Any] = {
        "batch_size": size.batch_size,
        "lr": size.lr,
        "weight_decay": 1e-4,
        "seed": seed,
    }
    settings |= {"compile": size.compile, "progress": False, "augment": RandomRotation()}
    settings |= {"loss": Loss(edge="plain", psi1=5, every_step=True)}
    rows: list[dict[str, Any]] = []
    for product in (False, True):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = with_product(GLN(**size.model)) if product else GLN(**size.model)
        torch.compiler.reset()
        with fast_products():
            if rows:
                result, seconds = train_as_long(model, train, val, rows[0]["seconds"], settings)
            else:
                result, seconds = timed(partial(fit, model, train, val, epochs=epochs, **settings))
        name = "triangle product" if product else "attention over third nodes"
        row = {"mixing": name, "weights": weights_of(model), "step_ms": _milliseconds(result.history)}
        row |= {"epochs": len(result.history), "seconds": seconds}
        held_out = parse_family(f"delaunay:points={size.points}").sample(tests, TEST_SEED)
        rows.append(row | {"f1": f1_of(model, held_out), "history": result.history})
    facts: dict[str, Any] = {
        "points": size.points,
        "training_sets": size.sets,
        "test_sets": tests,
        "seed": seed,
    }
    facts |= {"batch_size": size.batch_size, "lr": size.lr, "compile": size.compile, "device": device_name()}
    return {"name": "triangle", "rows": rows, "settings": facts}


def with_product(model: GLN) -> GLN:
    """The same, with triangle products in place of its mixing."""
    for step in model.blocks:
        step.mix = TriangleProduct(model.config["pair_width"])
    return model


def _milliseconds(history: list[dict[str, Any]]) -> float:
    seconds = np.diff([row["seconds"] for row in history], prepend=0)
    batches = np.diff([row["step"] for row in history], prepend=0)
    return float(1e3 * np.median(seconds / batches))

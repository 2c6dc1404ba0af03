"""Small sets through the compiled loops have the answer of the padded form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gln.compiling import can_compile
from gln.graphs import GraphBatch
from gln.models import small
from gln.models.candidates import candidate_pairs
from gln.models.gln import GLN
from gln.models.output import StructureOutput
from gln.models.small_kernels import kernels
from tests.models.test_gln import batch_of, model_of
from tests.models.test_streaming import VARIANTS

SIZES = (1, 12, 2, 17, 30)

pytestmark = pytest.mark.skipif(not can_compile(), reason="numba is not installed")


@pytest.fixture(autouse=True, params=[0.0, 1.0], ids=["all places", "third nodes by list"])
def always(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[int]:
    """Every batch is worth it, in groups of a few sets, either way; how many sets each group had."""
    monkeypatch.setattr(small, "CROWDED", request.param)
    groups: list[int] = []
    score_group = small._score_group

    def counted(model: Any, parts: Any, mask: Tensor, *rest: Any) -> Any:
        groups.append(len(mask))
        return score_group(model, parts, mask, *rest)

    monkeypatch.setattr(small, "WORTH", 0)
    monkeypatch.setattr(small, "GROUP", 300)
    monkeypatch.setattr(small, "_score_group", counted)
    return groups


def with_and_without(
    model: GLN, batch: GraphBatch, **options: Any
) -> tuple[StructureOutput, StructureOutput]:
    assert torch.is_grad_enabled()
    expected = model(batch, **options)  # with gradients, so in the padded form
    with torch.no_grad():
        return model(batch, **options), expected


def agree(got: StructureOutput, expected: StructureOutput, batch: GraphBatch, close: float) -> None:
    assert len(got.logits) == len(expected.logits)
    assert got.mask.equal(expected.mask)
    for step in range(len(got.logits)):
        assert (got.probabilities(step) - expected.probabilities(step)).abs().max() < close
        assert (got.states[step] - expected.states[step])[batch.mask].abs().max() < close


SETTINGS = [*VARIANTS, {"kernels": 1}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_step_has_the_answer_of_the_padded_form(settings: dict[str, Any], always: list[int]) -> None:
    model, batch = model_of(**settings), batch_of(SIZES)
    got, expected = with_and_without(model, batch)
    agree(got, expected, batch, 1e-9)
    assert always == [3, 1, 1]  # 0 + 132 + 2, then 272, then 870 pairs


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_the_work(threads: int, always: list[int]) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        got, expected = with_and_without(model_of(), batch := batch_of(SIZES))
    finally:
        torch.set_num_threads(before)
    agree(got, expected, batch, 1e-9)
    assert len(always) == {1: 3, 3: 2}[threads]  # groups are larger where there are more threads


def test_candidates_known_edges_and_fewer_steps(always: list[int]) -> None:
    model, batch = model_of(), batch_of(SIZES)
    known = (torch.rand(batch.adj.shape, generator=torch.Generator().manual_seed(0)) < 0.1).double()
    pairs = candidate_pairs(batch.pos, batch.mask, 4)
    for options in ({"pairs": pairs}, {"candidates": 4}, {"initial": known + known.mT}, {"steps": 2}):
        always.clear()
        agree(*with_and_without(model, batch, **options), batch, 1e-9)
        assert always


def test_float32_is_as_exact_as_the_padded_form() -> None:
    torch.manual_seed(0)
    model, batch = GLN(width=16, pair_width=16, steps=3).eval(), batch_of((40, 33))
    exact = GLN(**model.config).double().eval()
    exact.load_state_dict(model.state_dict())
    truth = exact(batch).probabilities()
    got, expected = with_and_without(model, batch)
    ours, theirs = ((answer.probabilities() - truth).abs().max() for answer in (got, expected))
    assert ours < max(2 * theirs, 1e-6)


def test_the_short_exponential_is_that_of_float64() -> None:
    """Two nodes and their mixing with a third: scores from far below to far above nothing."""
    start, target = np.array([0, 2, 4, 6]), np.array([1, 2, 0, 2, 0, 1])
    back = np.array([2, 4, 0, 5, 1, 3])
    for size in (0.0, 1e-3, 1.0, 30.0, 300.0):
        read = np.random.default_rng(0).normal(size=(6, 8)) * [size, size, 1, 1, 1, 1, 1, 1]
        answers = []
        for dtype in (np.float32, np.float64):
            given = read.astype(np.float32).astype(dtype)
            answers.append(out := np.empty((6, 4), dtype))
            kernels(2, 1).mix(0, 1, np.array([0, 3]), start, target, back, given, out)
        np.testing.assert_allclose(answers[0], answers[1], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("part", range(4))
def test_a_spoilt_weight_is_not_hidden(part: int, dtype: torch.dtype) -> None:
    """In query, key, first or second: what is wrong must show."""
    model, batch = model_of(steps=1).to(dtype), batch_of((9, 9))
    with torch.no_grad():
        model.step(0).mix.read.weight[8 * part] = torch.nan
        assert model(batch).logits[-1][batch.pair_mask].isnan().all()


def test_what_is_not_worth_it_or_not_possible_stays_padded(always: list[int], monkeypatch: Any) -> None:
    model, batch = model_of(), batch_of((9, 9))
    with torch.no_grad():
        model.to(torch.bfloat16)(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model.float()(batch)
        monkeypatch.setattr(small, "WORTH", 2 * 9 * 9)
        model(batch)
        assert not always
        monkeypatch.setattr(small, "WORTH", 2 * 9 * 9 - 1)
        model(batch)
    assert always

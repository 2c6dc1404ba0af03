"""``torch.compile`` for a model that is trained."""

from __future__ import annotations

from typing import Any

from torch import nn


def compile_steps(model: nn.Module, **options: Any) -> nn.Module:
    """``model``, with ``torch.compile`` for its steps.

    The steps of a network are alike, so what is compiled for one serves all: a third of the wait for the whole.

    Args:
        model: its steps are its ``blocks``; one without them is compiled as a whole.
        options: of ``torch.compile``.
    """
    for part in _parts(model):
        part.compile(**options)
    return model


def forget_compiled(model: nn.Module) -> None:
    """The model is again as it was before :func:`compile_steps`."""
    for part in _parts(model):
        part._compiled_call_impl = None


def _parts(model: nn.Module) -> list[nn.Module]:
    return list(getattr(model, "blocks", [])) or [model]

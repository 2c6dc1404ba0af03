"""``torch.compile`` for training."""

from __future__ import annotations

from typing import Any

from torch import nn


def compile_steps(model: nn.Module, **options: Any) -> nn.Module:
    """Apply ``torch.compile`` to the steps of ``model``, and return it.

    The steps are alike, so what is compiled for one serves all: a third of the time to compile the whole network.

    Args:
        model: its steps are its ``blocks``; a model without them is compiled as a whole.
        options: passed to ``torch.compile``.
    """
    for part in _parts(model):
        part.compile(**options)
    return model


def forget_compiled(model: nn.Module) -> None:
    """Undo :func:`compile_steps`."""
    for part in _parts(model):
        part._compiled_call_impl = None


def _parts(model: nn.Module) -> list[nn.Module]:
    return list(getattr(model, "blocks", [])) or [model]

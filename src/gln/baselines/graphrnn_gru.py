"""A GRU over packed sequences: torch's own, or on a GPU one that takes all steps of a layer in one launch.

Both take the weights of the same ``nn.GRU``. GraphRNN takes hundreds of small steps; launched one by one, the GPU
waits for most of them.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence


def _find_kernels() -> dict[str, ModuleType]:
    """By device: the same GRU in one kernel per layer, where there is a compiler for it."""
    if torch.cuda.is_available():
        try:
            from gln.baselines import graphrnn_gru_kernels
        except ImportError:
            return {}
        return {"cuda": graphrnn_gru_kernels}
    return {}


KERNELS = _find_kernels()


def run_gru(gru: nn.GRU, inputs: PackedSequence, start: Tensor | None = None) -> Tensor:
    """The states of the last layer ``[S, H]``, packed as the inputs ``[S, I]`` are.

    ``start`` ``[L, R, H]`` is the state of every layer before the first step of the ``R`` sequences, 0 if not given.
    """
    kernels = KERNELS.get(inputs.data.device.type)
    if kernels is not None and kernels.takes(gru, inputs):
        return kernels.run(gru, inputs, start)
    return gru(inputs, start)[0].data

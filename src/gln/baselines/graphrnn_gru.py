"""A GRU over packed sequences: torch's own or, on a GPU, one that runs all steps of a layer in one launch.

Both use the weights of the same ``nn.GRU``. GraphRNN takes hundreds of small steps; launched one by one, they leave the
GPU idle most of the time.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

KERNELS: dict[str, ModuleType] = {}  # by device, loaded on first use


def run_gru(gru: nn.GRU, inputs: PackedSequence, start: Tensor | None = None) -> Tensor:
    """The states of the last layer ``[S, H]``, packed like the inputs ``[S, I]``.

    ``start`` ``[L, R, H]`` is the state of every layer before the first step of the ``R`` sequences, by default 0.
    """
    kernels = _kernels(inputs.data)
    if kernels is not None and kernels.takes(gru, inputs):
        return kernels.run(gru, inputs, start)
    return gru(inputs, start)[0].data


def _kernels(data: Tensor) -> ModuleType | None:
    if data.is_cuda and "cuda" not in KERNELS and find_spec("triton") is not None:
        KERNELS["cuda"] = import_module("gln.baselines.graphrnn_gru_kernels")
    return KERNELS.get(data.device.type)

"""A GRU over packed sequences: torch's own or, on a GPU, one that runs all steps of a layer in one launch.

Both use the weights of the same ``nn.GRU``. GraphRNN takes hundreds of small steps; launched one by one, they leave the
GPU idle most of the time.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from gln.compiling import gpu_kernels

KERNELS = gpu_kernels("gln.baselines.graphrnn_gru_kernels")


def run_gru(gru: nn.GRU, inputs: PackedSequence, start: Tensor | None = None) -> Tensor:
    """The states of the last layer ``[S, H]``, packed like the inputs ``[S, I]``.

    ``start`` ``[L, R, H]`` is the state of every layer before the first step of the ``R`` sequences, by default 0.
    """
    kernels = KERNELS.get(inputs.data.device.type)
    if kernels is not None and kernels.takes(gru, inputs):
        return kernels.run(gru, inputs, start)
    return gru(inputs, start)[0].data

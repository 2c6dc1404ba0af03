"""Changes to a training graph that leave its edges valid."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Data

from gln.errors import GLNError


@dataclass(frozen=True)
class RandomRotation:
    """Rotate and mirror ``pos`` by a random orthogonal matrix, for families whose edges do not depend on direction."""

    def __call__(self, graph: Data, rng: np.random.Generator) -> Data:
        if graph.get("pos") is None:
            raise GLNError(
                "The graph has no pos to rotate; train without RandomRotation, or give it positions."
            )
        width = graph.pos.shape[1]
        matrix, upper = np.linalg.qr(rng.standard_normal((width, width)))
        matrix *= np.sign(np.diag(upper))  # uniform over all orthogonal matrices
        turned = copy.copy(graph)
        turned.pos = graph.pos @ torch.from_numpy(matrix).to(graph.pos.dtype)
        return turned

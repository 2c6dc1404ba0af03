"""Training graphs, returned unchanged: the easiest way to get close to a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gln.baselines.base import Sampler, register, structures
from gln.graphs import pack, unpack
from gln.graphs.record import Graph
from gln.seeds import GENERATE

if TYPE_CHECKING:
    from torch import Tensor


@register("copy")
@dataclass(kw_only=True)
class Copy(Sampler):
    """A random training graph, unchanged: close to the floor of every MMD, and nothing new."""

    fitted: ClassVar[str] = "pooled: all graphs are stored."
    learned: ClassVar[tuple[str, ...]] = ("graphs",)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Store the structure of ``graphs``; nothing else is used."""
        self.graphs_ = structures(graphs)

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        count, seed = self._checked(count, seed)
        chosen = np.random.default_rng([GENERATE, seed]).integers(len(self.graphs_), size=count)
        return [self.graphs_[number].clone() for number in chosen]

    def state(self) -> dict[str, Tensor]:
        self._need_fit()
        return pack(self.graphs_)

    def restore(self, state: dict[str, Tensor]) -> None:
        self.graphs_ = unpack(state)

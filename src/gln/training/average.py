"""Averaged weights: a running mean of a model's weights over the last steps, which wanders less than they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

EARLY = 10  # in the first steps, the mean is over a tenth of them


class Average:
    """The mean of the weights of ``model``, of which every step keeps the share ``keep``.

    The number that a step reads is a tensor, and its sums are in place: a step can be recorded and replayed.
    """

    def __init__(self, model: nn.Module, keep: float) -> None:
        self.keep = keep
        self.names = [name for name, _ in model.named_parameters()]
        self.weights = [weight.detach() for weight in model.parameters()]
        self.means = [weight.clone() for weight in self.weights]
        self.pull = torch.ones((), device=self.weights[0].device)

    def at_step(self, step: int) -> None:
        """Say how many steps were done before the next one."""
        self.pull.fill_(1 - min(self.keep, (1 + step) / (EARLY + step)))

    def update(self) -> None:
        """Take in the weights after a step."""
        apart = torch._foreach_sub(self.weights, self.means)
        torch._foreach_mul_(apart, self.pull)
        torch._foreach_add_(self.means, apart)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averaged weights for a while."""
        before = [weight.clone() for weight in self.weights]
        torch._foreach_copy_(self.weights, self.means)
        try:
            yield
        finally:
            torch._foreach_copy_(self.weights, before)

    def state(self) -> dict[str, Tensor]:
        """The means, by the names of the weights."""
        return dict(zip(self.names, self.means, strict=True))

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from means that :meth:`state` gave; where there are none, from the weights."""
        for name, mean, weight in zip(self.names, self.means, self.weights, strict=True):
            mean.copy_(state.get(name, weight))

"""Many trainings of the paper's network at once, with batches of one.

A step of one such training is a few hundred tiny operations, which leave a processor idle and a GPU more so. Trainings
that differ only in their first weights, seeds and graphs of one size are therefore stacked: the package's own network
and loss, mapped over a further axis of all weights by ``torch.func.vmap``, traced once and compiled. Every training
still does exactly its own steps: a test compares one with :func:`gln.fit`.

A training uses all graphs outside the test set and threshold 0.5, as in the paper, and is read at its last epoch:
nothing is chosen. The curve of IoU on test graphs is kept to be looked at.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from gln.graphs import GraphBatch
from gln.models import PaperGLN, StructureOutput
from gln.training.data import global_batches
from gln.training.losses import Loss

THRESHOLD = 0.5  # the paper's
WATCHED = 60  # test graphs of the curve
AT_A_TIME = 20  # graphs predicted together
UNROLLED = 10  # steps recorded as one CUDA graph, at most
FLYING = 3  # launches of a stack that may be unfinished
WARM = 3  # steps before one is recorded: what is made at first use is made in them
Point = dict[
    str, Any
]  # of the curve: epoch, and of every training the mean loss, the IoU, and at a stop singular values


@dataclass(frozen=True)
class Shelf:
    """The graphs of one training, on a device: all training graphs, then all test graphs.

    ==============  =====================  ===================================================
    ``features``    ``[G, n, f]``          ``H⁰``
    ``adj``         ``[G, n, n]``, bool    the truth
    ``starts``      ``[G, n, n]`` or None  ``A⁰`` of every graph, bool; without it, the model's
    ``train``       number                 how many of them are for training
    ==============  =====================  ===================================================
    """

    features: Tensor
    adj: Tensor
    train: int
    starts: Tensor | None = None


class _Loss(nn.Module):
    """The loss that :func:`gln.fit` minimises for a batch of one; without a truth, the scores."""

    def __init__(self, net: PaperGLN, loss: Loss) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, H: Tensor, A: Tensor | None, adj: Tensor | None, mask: Tensor) -> Tensor:
        start = self.net.A0 if A is None else A.to(H.dtype)
        S = self.net.recur(H, start, self.net.config["steps"])[0][-1]  # [B, n, n]
        if adj is None:
            return S
        batch = GraphBatch(H, None, adj, mask)
        return self.loss(StructureOutput((S,), (), batch.pair_mask), batch, self.net).sum()


class Stack:
    """Trainings of ``models``, all of one shape, each on its own shelf from its own seed.

    Args:
        models: networks with their first weights.
        shelves: their graphs; equally many for training in each.
        seeds: which determine the order of the graphs, as in :func:`gln.fit`.
        loss: of every graph.
        lr: Adam's constant rate.
        device: where to compute.
        compiled: compile the step; otherwise it is run operation by operation, which is slower and starts at once.
    """

    def __init__(
        self,
        models: Sequence[PaperGLN],
        shelves: Sequence[Shelf],
        seeds: Sequence[int],
        loss: Loss,
        lr: float,
        device: str = "cpu",
        compiled: bool = True,
    ) -> None:
        self.device, self.compiled, self.lr = torch.device(device), compiled, lr
        self.stream = torch.cuda.Stream(self.device) if self.on_gpu else None
        self.train = shelves[0].train
        self.seeds, self.epoch, self.seconds = list(seeds), 0, 0.0
        weights, _ = stack_module_state([_Loss(model, loss) for model in models])
        self.net = _Loss(models[0], loss).to(self.device)  # moves the first model
        self.weights = {name: weight.detach().clone().to(self.device) for name, weight in weights.items()}
        own = list({id(shelf): shelf for shelf in shelves}.values())  # trainings may share one
        firsts = np.cumsum([0, *(len(shelf.adj) for shelf in own)])
        self.first = torch.tensor(
            [firsts[[one is shelf for one in own].index(True)] for shelf in shelves], device=self.device
        )
        self.features = torch.cat([shelf.features for shelf in own]).to(self.device)
        self.adj = torch.cat([shelf.adj for shelf in own]).to(self.device)
        self.starts = (
            None
            if own[0].starts is None
            else torch.cat([shelf.starts for shelf in own if shelf.starts is not None]).to(self.device)
        )
        self.tests = len(shelves[0].adj) - self.train
        self.mask = torch.ones(1, self.adj.shape[1], dtype=torch.bool, device=self.device)
        self.curve: list[Point] = []
        self.gradients: Callable[..., Any] | None = None  # of all trainings, once it is built
        self.flying: deque[torch.cuda.Event] = deque()  # launches that may not have ended
        # All weights in one kernel, which can be recorded; as gln.fit does it.
        self.adam = torch.optim.Adam(
            list(self.weights.values()),
            lr=torch.tensor(self.lr, device=self.device) if self.on_gpu else self.lr,
            fused=True,
            capturable=self.on_gpu,
        )
        count = len(self.seeds)
        self.order = torch.zeros(count, self.train, dtype=torch.int64, device=self.device)  # of one epoch
        self.at = torch.zeros(1, dtype=torch.int64, device=self.device)  # the next place in it
        self.lost = torch.zeros(count, device=self.device)  # summed over the epoch
        self.iou = torch.zeros(count, device=self.device)
        self.unrolled = max(k for k in range(1, UNROLLED + 1) if self.train % k == 0) if self.on_gpu else 1
        self.step, self.look = self._step, self._look

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def build(self) -> None:
        """Trace, compile and, on a GPU, record the step; weights and moments stay as they are.

        On a GPU this waits for whatever runs there: kernels are loaded when they are first used.
        """
        with torch.cuda.stream(self.stream):
            self._build()

    def _build(self) -> None:
        H, A, adj = self._batch(self.order[:, :1])
        with_starts = None if A is None else 0
        each = vmap(grad_and_value(self._call), in_dims=(0, 0, with_starts, 0))
        traced = make_fx(lambda *inputs: each(*inputs))(self.weights, H, A, adj)
        traced.graph.eliminate_dead_code()
        traced.recompile()
        self.gradients = torch.compile(traced) if self.compiled else traced
        kept = self.state()
        if self.on_gpu:
            torch.cuda.default_stream().synchronize()  # which made the tensors
        try:
            self._step()
        except Exception as error:
            if not self.compiled:
                raise
            print(f"Not compiled, so slower: {str(error).splitlines()[0]}", flush=True)
            self.gradients = traced
            self._step()
        if self.on_gpu:
            self._record()
        for name, value in self._tensors().items():
            value.copy_(kept[name]) if name in kept else value.zero_()

    def _record(self) -> None:
        """Replay steps from now on; without that, they are launched kernel by kernel."""
        for _ in range(WARM):
            self._step()
            self._look()
        try:
            step, look = self._recorded(self._step, self.unrolled), self._recorded(self._look, 1)
        except RuntimeError as error:
            print(f"Not recorded, so slower: {str(error).splitlines()[0]}", flush=True)
            self.unrolled = 1
        else:
            self.step, self.look = step, look

    def _recorded(self, work: Callable[[], None], times: int) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.current_stream().synchronize()
        graph.capture_begin(capture_error_mode="thread_local")  # other stacks go on meanwhile
        for _ in range(times):
            work()
        graph.capture_end()
        return graph.replay

    def _call(
        self, weights: dict[str, Tensor], H: Tensor, A: Tensor | None, adj: Tensor | None = None
    ) -> Tensor:
        found: Tensor = functional_call(self.net, weights, (H, A, adj, self.mask))
        return found

    def _batch(self, numbers: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """``H⁰``, ``A⁰`` and truth of the graphs with ``numbers [R, B]`` of every training."""
        rows = self.first[:, None] + numbers
        return self.features[rows], None if self.starts is None else self.starts[rows], self.adj[rows]

    def _step(self) -> None:
        """One update of every training, each with its next graph."""
        H, A, adj = self._batch(self.order.index_select(1, self.at))
        assert self.gradients is not None
        gradients, losses = self.gradients(self.weights, H, A, adj)
        for name, weight in self.weights.items():
            weight.grad = gradients[name]
        self.adam.step()
        self.lost.add_(losses)
        self.at.add_(1)

    def _look(self) -> None:
        """The mean IoU of the first test graphs."""
        watched = torch.arange(self.train, self.train + min(WATCHED, self.tests), device=self.device)
        edges, adj = self._edges(watched.expand(len(self.seeds), -1))
        both, either = ((edges & adj).sum((2, 3)), (edges | adj).sum((2, 3)))
        self.iou.copy_(torch.where(either > 0, both / either.clamp(min=1), 1.0).mean(1))

    @torch.no_grad()
    def _edges(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted and the true edges ``[R, B, n, n]`` of the graphs with ``numbers [R, B]``."""
        S, adj = self._scores(numbers)
        p = S.sigmoid()
        pairs = ~torch.eye(p.shape[-1], dtype=torch.bool, device=self.device)
        return ((p + p.mT) / 2 >= THRESHOLD) & pairs, adj

    @torch.no_grad()
    def _scores(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The last scores and the true edges ``[R, B, n, n]`` of the graphs with ``numbers [R, B]``."""
        H, A, adj = self._batch(numbers)
        return vmap(self._call, in_dims=(0, 0, None if A is None else 0))(self.weights, H, A), adj

    def singular_values(self) -> list[list[float]]:
        """The three largest of the scores of the first test graph, for every training: what rank the scores have."""
        scores, _ = self._scores(torch.full((len(self.seeds), 1), self.train, device=self.device))
        found: list[list[float]] = torch.linalg.svdvals(scores[:, 0].cpu().double())[:, :3].tolist()
        return found

    def run_epoch(self) -> None:
        """Show every training its graphs once, in the order that :func:`gln.fit` would."""
        nodes = [self.adj.shape[1]] * self.train
        orders = {
            seed: np.concatenate(global_batches(nodes, 1, seed, self.epoch)) for seed in set(self.seeds)
        }
        self.order.copy_(torch.from_numpy(np.stack([orders[seed] for seed in self.seeds])))
        self.at.zero_()
        self.lost.zero_()
        for _ in range(self.train // self.unrolled):
            self.step()
            self._wait()
        self.epoch += 1

    def _wait(self) -> None:
        """Leave few launches unfinished: a full queue would keep the other stacks from theirs."""
        if not self.on_gpu:
            return
        self.flying.append(torch.cuda.Event(blocking=True))
        self.flying[-1].record()
        if len(self.flying) > FLYING:
            self.flying.popleft().synchronize()

    def run(
        self,
        stops: Sequence[int],
        found: Callable[[int, Tensor], None],
        late: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda _: None,
    ) -> bool:
        """Train to the last of ``stops``, giving ``found`` the epoch and the predictions at each; False if ``late``.

        IoU is kept after every epoch up to the first stop and after every fifth from there.
        """
        if self.gradients is None:
            self.build()
        with torch.cuda.stream(self.stream):  # nothing without a GPU
            begun = time.monotonic() - self.seconds
            while self.epoch < stops[-1]:
                self.run_epoch()
                if self.epoch <= stops[0] or self.epoch % 5 == 0 or self.epoch == stops[-1]:
                    self.look()
                    losses, iou = (self.lost / self.train).tolist(), self.iou.tolist()
                    self.curve.append({"epoch": self.epoch, "loss": losses, "iou": iou})
                self.seconds = time.monotonic() - begun
                if self.epoch in stops:
                    self.curve[-1]["singular"] = self.singular_values()
                    found(self.epoch, self.predictions())
                    say(f"epoch {self.epoch}, {self.seconds:.0f} s, IoU {_short(self.iou)}")
                if late() and self.epoch < stops[-1]:
                    found(self.epoch, self.predictions())
                    say(f"stopped after epoch {self.epoch} of {stops[-1]}, IoU {_short(self.iou)}")
                    return False
        return True

    def predictions(self) -> Tensor:
        """The predicted edges of all test graphs ``[R, T, n(n−1)/2]``: bool, the pairs i < j row by row."""
        i, j = torch.triu_indices(self.adj.shape[1], self.adj.shape[1], offset=1, device=self.device)
        parts = []
        for start in range(0, self.tests, AT_A_TIME):
            numbers = torch.arange(start, min(start + AT_A_TIME, self.tests), device=self.device) + self.train
            parts.append(self._edges(numbers.expand(len(self.seeds), -1))[0][:, :, i, j].cpu())
        return torch.cat(parts, dim=1)

    def _tensors(self) -> dict[str, Tensor]:
        """Everything that a training changes, by name."""
        named = {f"weight.{name}": weight for name, weight in self.weights.items()}
        for name, weight in self.weights.items():
            named |= {f"{key}.{name}": value for key, value in self.adam.state[weight].items()}
        return named

    def state(self) -> dict[str, Tensor]:
        """Weights and moments, to go on from later."""
        return {name: value.cpu().clone() for name, value in self._tensors().items()}

    def resume(self, state: dict[str, Tensor], epoch: int, seconds: float, curve: list[Point]) -> None:
        """Go on from :meth:`state`; to be called before anything has run."""
        for name, weight in self.weights.items():
            weight.copy_(state[f"weight.{name}"])
            moments = {key: state[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
            self.adam.state[weight] = {key: value.to(self.device) for key, value in moments.items()}
        self.epoch, self.seconds, self.curve = epoch, seconds, list(curve)


def _short(values: Tensor) -> str:
    return " ".join(f"{value:.3f}" for value in values.tolist()[:8])

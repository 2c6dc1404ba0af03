"""GraphRNN (You et al., 2018): graphs, generated node by node."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypedDict, get_args

import torch
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.base import Sampler, check_folder, mark_folder, register, run_facts
from gln.errors import GLNError
from gln.graphs.check import check_real
from gln.graphs.record import Graph
from gln.seeds import GENERATE, ORDER, seed_of, seeded
from gln.storage.models import build_for, load_weights
from gln.storage.runs import Checkpoint, read_checkpoint, restore_optimizer, write_checkpoint
from gln.training.progress import Progress, resumed
from reproduction.baselines.graphrnn_network import ConnectedGraphs, GraphRNNNetwork, Variant, decode

# The settings that determine the shape of the network.
WIDTHS = ("hidden", "embedding", "edge_hidden", "edge_embedding", "layers")
SAMPLE_CELLS = 2**24  # random numbers held at a time
# Released: 400 and 1000 of 3000. Its settings call them epochs, though its code counts batches.
MILESTONES, DECAY = (400 / 3000, 1000 / 3000), 0.3
CHECKPOINT, CHECKPOINT_SECONDS = "checkpoint.safetensors", 30


class GraphRNNEpoch(TypedDict):
    """A row of the history."""

    epoch: int
    loss: float
    lr: float
    seconds: float


@register("graphrnn")
@dataclass(kw_only=True)
class GraphRNN(Sampler):
    """A recurrent network that adds one node with its edges at a time, in breadth-first order.

    Only the largest component of a training graph is learned. The sampled graphs are connected, have at most as many
    nodes as the largest training graph, and number their nodes in breadth-first order. The defaults are those of the
    released code, which also takes ``M`` as the largest width of 20 000 random orders. It trains and samples on a GPU
    if there is one. With a ``folder``, a killed fit resumes where it stopped.

    Args:
        variant: ``"rnn"``, where every edge depends on those before it; ``"mlp"``, the simplified GraphRNN-S.
        hidden, embedding: widths of the graph-level GRU.
        edge_hidden, edge_embedding: widths of the edge-level GRU.
        layers: number of layers of each GRU.
        epochs: passes of ``batches`` batches of ``batch_size`` graphs each.
        lr: the initial learning rate; it is multiplied by .3 after 2/15 and again after 1/3 of all epochs.
        minutes: stop after this long, if the epochs have not ended before; the rate then falls with time.
        orders: number of random orders from which ``M`` is estimated.
    """

    variant: Variant = "rnn"
    hidden: int = 128
    embedding: int = 64
    edge_hidden: int = 16
    edge_embedding: int = 8
    layers: int = 4
    epochs: int = 3000
    batches: int = 32
    batch_size: int = 32
    lr: float = 0.003
    minutes: float | None = None
    orders: int = 20_000

    fitted = "pooled: one network learns from all graphs."
    learned = ("network",)
    free = ("epochs", "minutes")
    choices: ClassVar = {"variant": get_args(Variant)}
    counts = (*WIDTHS, "epochs", "batches", "batch_size", "orders")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lr = check_real(self.name, "lr", self.lr, above=True)
        if self.minutes is not None:
            self.minutes = check_real(self.name, "minutes", self.minutes, above=True)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Train on ``graphs``; ``val`` is not used."""
        known = ConnectedGraphs.of(graphs, _device())
        nodes = known.adj.shape[1]
        if nodes < 2:
            raise GLNError(f"None of the {len(graphs)} graphs has an edge; graphrnn needs at least one.")
        checkpoint = None if folder is None else Path(folder) / CHECKPOINT
        saved = None
        if checkpoint is not None:
            facts = run_facts(self, graphs, seed)
            check_folder(checkpoint.parent, facts, self.free)
            saved = read_checkpoint(checkpoint) if checkpoint.exists() else None
            if saved is not None and saved.progress["epoch"] > self.epochs:
                raise GLNError(
                    f"The run has been trained for {saved.progress['epoch']} epochs, now epochs={self.epochs}; "
                    "resume with as many or more."
                )
            mark_folder(checkpoint.parent, facts)
        width = known.width(self.orders, torch.Generator().manual_seed(seed % 2**63))
        with seeded(seed):
            network = self._network(nodes, width).to(known.adj.device)
        self.history_ = self._train(network, known, seed, checkpoint, saved, progress)
        self.network_ = network.eval()

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        """``count`` connected graphs with ``edge_index`` and ``num_nodes``, determined by ``seed``."""
        count, seed = self._checked(count, seed)
        network = self.network_.to(_device())
        generator = torch.Generator().manual_seed(seed_of(GENERATE, seed) % 2**63)
        rows, width = network.nodes - 1, network.width
        graphs: list[Graph] = []
        while len(graphs) < count:
            share = min(count - len(graphs), max(1, SAMPLE_CELLS // (rows * width)))
            uniform = torch.rand(share, rows, width, generator=generator).to(_device())
            graphs += decode(network.sample(uniform))
        return graphs

    def state(self) -> dict[str, Tensor]:
        self._need_fit()
        limits = torch.tensor([self.network_.nodes, self.network_.width])
        return {"limits": limits} | {f"network.{k}": v.cpu() for k, v in self.network_.state_dict().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        nodes, width = state["limits"].tolist()
        weights = {key.removeprefix("network."): value for key, value in state.items() if key != "limits"}
        config = {"nodes": nodes, "width": width}
        network = build_for(weights, self._network, config, Path("model.json"))
        load_weights(network, weights, Path("model.safetensors"))
        self.network_ = network.eval()

    def _network(self, nodes: int, width: int) -> GraphRNNNetwork:
        return GraphRNNNetwork(self.variant, nodes, width, **{name: getattr(self, name) for name in WIDTHS})

    def _train(
        self,
        network: GraphRNNNetwork,
        known: ConnectedGraphs,
        seed: int,
        checkpoint: Path | None,
        saved: Checkpoint | None,
        progress: bool,
    ) -> list[dict[str, Any]]:
        """Train on random breadth-first orders, from where a run was ``saved`` on; returns one row per epoch.

        The seed and the epoch determine the graphs, orders and rates of an epoch, so a checkpoint holds only the
        weights, the optimiser's moments and the progress so far.
        """
        optimizer = torch.optim.Adam(network.parameters(), lr=self.lr)
        at = Progress()
        if checkpoint is not None and saved is not None:
            load_weights(network, saved.weights, checkpoint)
            restore_optimizer(optimizer, saved.optimizer, checkpoint)
            at = resumed(saved.progress, checkpoint, GraphRNNEpoch)
        before, written, start = at.seconds, time.monotonic(), time.monotonic()
        shown = None if progress else True
        with tqdm(total=self.epochs, initial=at.epoch, desc=self.name, unit="epoch", disable=shown) as bar:
            while self._done(at) < 1:
                rate = self._rate(at)
                loss = self._epoch(network, known, optimizer, at.epoch, seed, rate)
                at.epoch, at.step = at.epoch + 1, at.step + self.batches
                at.seconds = before + time.monotonic() - start
                row = {"epoch": at.epoch, "loss": loss, "lr": rate, "seconds": round(at.seconds, 3)}
                at.history.append(row)
                bar.update()
                bar.set_postfix(loss=f"{loss:.4f}")
                due = time.monotonic() - written > CHECKPOINT_SECONDS or self._done(at) >= 1
                if checkpoint is not None and due:
                    write_checkpoint(checkpoint, network.state_dict(), {}, optimizer, asdict(at))
                    written = time.monotonic()
        return at.history

    def _done(self, at: Progress) -> float:
        """The share of the work done, by epochs or by time, whichever is further along."""
        by_time = at.seconds / (60 * self.minutes) if self.minutes else 0.0
        return max(at.epoch / self.epochs, by_time)

    def _rate(self, at: Progress) -> float:
        return self.lr * DECAY ** sum(self._done(at) >= milestone for milestone in MILESTONES)

    def _epoch(
        self,
        network: GraphRNNNetwork,
        known: ConnectedGraphs,
        optimizer: torch.optim.Optimizer,
        epoch: int,
        seed: int,
        rate: float,
    ) -> float:
        """Run one epoch; returns the mean loss per bit."""
        generator = torch.Generator().manual_seed(seed_of(ORDER, seed, epoch) % 2**63)
        for group in optimizer.param_groups:
            group["lr"] = rate
        # Read once, at the end, so that a GPU is not waited for.
        total = torch.zeros((), device=known.adj.device)
        for bits, sizes in self._batches(known, network.width, generator):
            loss = network.losses(bits, sizes)[0].mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        mean = total.item() / self.batches
        if mean != mean:
            raise GLNError(
                f"The loss of epoch {epoch + 1} is not a number; use a lower lr (it was {rate:g})."
            )
        return mean

    def _batches(
        self, known: ConnectedGraphs, width: int, generator: torch.Generator
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of random graphs in random orders, and their sizes; several batches are ordered at a time."""
        sizes = known.sizes.cpu()
        numbers = torch.randint(len(sizes), (self.batches, self.batch_size), generator=generator)
        together = max(1, known.at_a_time // self.batch_size)
        for part in numbers.split(together):
            bits = known.bits(part.flatten().to(known.adj.device), width, generator)
            yield from zip(bits.split(self.batch_size), sizes[part], strict=True)


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

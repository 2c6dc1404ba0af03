"""GraphRNN (You et al., 2018): graphs, generated node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, get_args

import torch
from torch import Tensor

from gln.baselines.base import Sampler, check_folder, mark_folder, register, run_facts
from gln.baselines.graphrnn_network import GraphRNNNetwork, Variant
from gln.baselines.graphrnn_sequences import Shelf, decode
from gln.baselines.graphrnn_training import CHECKPOINT, Schedule, check_epochs, train
from gln.errors import GLNError
from gln.graphs import as_graphs
from gln.graphs.check import check_whole
from gln.graphs.record import Graph
from gln.seeds import GENERATE, check_seed, seed_of, seeded
from gln.storage.tensors import load_weights

# The settings that determine the shape of the network.
WIDTHS = ("hidden", "embedding", "edge_hidden", "edge_embedding", "layers")
SAMPLE_CELLS = 2**24  # random numbers held at a time


@register("graphrnn")
@dataclass(kw_only=True)
class GraphRNN(Sampler):
    """A recurrent network that adds one node with its edges at a time, in breadth-first order.

    Only the largest component of a training graph is learned. The sampled graphs are connected, have at most as many
    nodes as the largest training graph, and number their nodes in breadth-first order. The defaults are those of the
    released code, which also takes ``M`` as the largest width of 20 000 random orders. It trains and samples on a GPU
    if there is one.

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

    fitted: ClassVar[str] = "pooled: one network learns from all graphs."
    free: ClassVar[tuple[str, ...]] = ("epochs", "minutes")

    def __post_init__(self) -> None:
        self._check_choice("variant", get_args(Variant))
        for name in (*WIDTHS, "epochs", "batches", "batch_size", "orders"):
            self._keep_whole(name)
        self._check_above_zero("lr")
        if self.minutes is not None:
            self._check_above_zero("minutes")

    def fit(
        self,
        graphs: Sequence[Graph],
        val: Sequence[Graph] = (),
        *,
        seed: int = 0,
        progress: bool = False,
        folder: Path | None = None,
    ) -> Self:
        """Train on ``graphs``; ``val`` is not used. With ``folder``, a killed run resumes where it stopped."""
        graphs, seed = as_graphs(graphs), check_seed("fit", seed)
        shelf = Shelf.of(graphs, _device())
        nodes = shelf.adj.shape[1]
        if nodes < 2:
            raise GLNError(f"None of the {len(graphs)} graphs has an edge; graphrnn needs at least one.")
        checkpoint = None if folder is None else Path(folder) / CHECKPOINT
        if checkpoint is not None:
            facts = run_facts(self, graphs, seed)
            check_folder(checkpoint.parent, facts, self.free)
            check_epochs(checkpoint, self.epochs)
            mark_folder(checkpoint.parent, facts)
        width = shelf.width(self.orders, torch.Generator().manual_seed(seed % 2**63))
        with seeded(seed):
            network = self._network(nodes, width).to(shelf.adj.device)
        schedule = Schedule(self.epochs, self.batches, self.batch_size, self.lr, self.minutes, seed)
        self.history_ = train(network, shelf, schedule, checkpoint, progress)
        self.network_ = network.eval()
        return self

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        """``count`` connected graphs with ``edge_index`` and ``num_nodes``, determined by ``seed``."""
        self._need_fit("network_")
        count, seed = check_whole("sample", "count", count, 1), check_seed("sample", seed)
        network = self.network_.to(_device())
        generator = torch.Generator().manual_seed(seed_of(GENERATE, seed) % 2**63)
        rows, width = network.nodes - 1, network.width
        graphs: list[Graph] = []
        while len(graphs) < count:
            share = min(count - len(graphs), max(1, SAMPLE_CELLS // (rows * width)))
            uniform = torch.rand(share, rows, width, generator=generator).to(_device())
            graphs += decode(network.sample(uniform))
        return graphs

    def log_likelihood(self, graphs: Sequence[Graph], seed: int = 0) -> Tensor:
        """Log-likelihoods in nats ``[G]``, each for one random breadth-first order; compare over many seeds.

        They are those of the largest components, and −∞ where an edge reaches further back than ``M`` nodes.
        """
        self._need_fit("network_")
        seed = check_seed("log_likelihood", seed)
        network = self.network_.to(_device())
        shelf = Shelf.of(as_graphs(graphs), _device())
        if shelf.adj.shape[1] > network.nodes:
            raise GLNError(
                f"Got a graph of {shelf.adj.shape[1]} connected nodes; this graphrnn was trained on at most "
                f"{network.nodes}."
            )
        largest_first = shelf.sizes.argsort(descending=True, stable=True)
        bits = shelf.bits(largest_first, network.width, torch.Generator().manual_seed(seed % 2**63))
        rows = bits.new_zeros(len(bits), network.nodes - 1, network.width)
        rows[:, : bits.shape[1]] = bits
        with torch.no_grad():
            found = network.log_likelihood(rows, tuple(shelf.sizes[largest_first].tolist()))
        lost = 2 * bits.sum((1, 2)) < shelf.adj[largest_first].sum((1, 2))  # edges that no row can hold
        found = found.masked_fill(lost, -torch.inf)
        return torch.empty_like(found).index_copy(0, largest_first, found).cpu()

    def state(self) -> dict[str, Tensor]:
        self._need_fit("network_")
        limits = torch.tensor([self.network_.nodes, self.network_.width])
        return {"limits": limits} | {f"network.{k}": v.cpu() for k, v in self.network_.state_dict().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        nodes, width = state["limits"].tolist()
        weights = {key.removeprefix("network."): value for key, value in state.items() if key != "limits"}
        with torch.random.fork_rng(devices=[]):  # its first weights are drawn, then overwritten
            network = self._network(nodes, width)
        load_weights(network, weights, Path("model.safetensors"))
        self.network_ = network.eval()

    def _network(self, nodes: int, width: int) -> GraphRNNNetwork:
        return GraphRNNNetwork(self.variant, nodes, width, **{name: getattr(self, name) for name in WIDTHS})


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

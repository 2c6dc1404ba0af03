"""Training of GraphRNN; a killed run resumes where it stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.graphrnn_network import GraphRNNNetwork
from gln.baselines.graphrnn_sequences import Shelf
from gln.errors import GLNError
from gln.seeds import ORDER, seed_of
from gln.storage.runs import read_checkpoint, write_checkpoint
from gln.storage.tensors import load_weights
from gln.training.progress import Progress

# Released: 400 and 1000 of 3000. Its settings call them epochs, though its code counts batches.
MILESTONES, DECAY = (400 / 3000, 1000 / 3000), 0.3
CHECKPOINT_SECONDS = 30
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train: the GraphRNN settings of the same names."""

    epochs: int
    batches: int
    batch_size: int
    lr: float
    minutes: float | None
    seed: int

    def done(self, at: Progress) -> float:
        """The share of the work done, by epochs or by time, whichever is further along."""
        by_time = at.seconds / (60 * self.minutes) if self.minutes else 0.0
        return max(at.epoch / self.epochs, by_time)

    def lr_at(self, share: float) -> float:
        return self.lr * DECAY ** sum(share >= milestone for milestone in MILESTONES)


def check_epochs(checkpoint: Path, epochs: int) -> None:
    """Refuse to end a run at an epoch that it has already passed."""
    if checkpoint.exists() and (reached := read_checkpoint(checkpoint).progress["epoch"]) > epochs:
        raise GLNError(
            f"The run has been trained for {reached} epochs, now epochs={epochs}; resume with as many or more."
        )


def train(
    network: GraphRNNNetwork, shelf: Shelf, schedule: Schedule, checkpoint: Path | None, progress: bool
) -> list[dict[str, Any]]:
    """Train on random breadth-first orders of the graphs on ``shelf``; returns one row per epoch.

    The seed and the epoch determine the graphs, orders and rates of an epoch, so a checkpoint holds only the weights,
    the optimiser's moments and the progress so far.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.lr)
    at = Progress()
    if checkpoint is not None and checkpoint.exists():
        saved = read_checkpoint(checkpoint)
        load_weights(network, saved.weights, checkpoint)
        optimizer.load_state_dict(saved.optimizer)
        at = Progress(**saved.progress)
    before, written, start = at.seconds, time.monotonic(), time.monotonic()
    with tqdm(
        total=schedule.epochs,
        initial=at.epoch,
        desc="graphrnn",
        unit="epoch",
        disable=None if progress else True,
    ) as bar:
        while schedule.done(at) < 1:
            rate = schedule.lr_at(schedule.done(at))
            loss = _epoch(network, shelf, schedule, optimizer, at.epoch, rate)
            at.epoch, at.step = at.epoch + 1, at.step + schedule.batches
            at.seconds = before + time.monotonic() - start
            at.history.append({"epoch": at.epoch, "loss": loss, "lr": rate, "seconds": round(at.seconds, 3)})
            bar.update()
            bar.set_postfix(loss=f"{loss:.4f}")
            due = time.monotonic() - written > CHECKPOINT_SECONDS or schedule.done(at) >= 1
            if checkpoint is not None and due:
                write_checkpoint(checkpoint, network.state_dict(), {}, optimizer, asdict(at))
                written = time.monotonic()
    return at.history


def _epoch(
    network: GraphRNNNetwork,
    shelf: Shelf,
    schedule: Schedule,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    rate: float,
) -> float:
    """Run one epoch; returns the mean loss per bit."""
    generator = torch.Generator().manual_seed(seed_of(ORDER, schedule.seed, epoch) % 2**63)
    for group in optimizer.param_groups:
        group["lr"] = rate
    total = torch.zeros((), device=shelf.adj.device)  # read once, at the end, so that a GPU is not waited for
    for bits, sizes in _batches(shelf, network.width, schedule, generator):
        loss = network.losses(bits, sizes)[0].mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    mean = total.item() / schedule.batches
    if mean != mean:
        raise GLNError(f"The loss of epoch {epoch + 1} is not a number; use a lower lr (it was {rate:g}).")
    return mean


def _batches(
    shelf: Shelf, width: int, schedule: Schedule, generator: torch.Generator
) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
    """Batches of random graphs in random orders, largest graph first; several batches are ordered at a time."""
    sizes = shelf.sizes.cpu()
    numbers = torch.randint(len(sizes), (schedule.batches, schedule.batch_size), generator=generator)
    numbers = numbers.gather(1, sizes[numbers].argsort(dim=1, descending=True, stable=True))
    together = max(1, shelf.at_a_time // schedule.batch_size)
    for part in numbers.split(together):
        bits = shelf.bits(part.flatten().to(shelf.adj.device), width, generator)
        for row, graphs in enumerate(part):
            share = bits[row * schedule.batch_size : (row + 1) * schedule.batch_size]
            yield share, tuple(sizes[graphs].tolist())

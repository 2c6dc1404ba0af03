"""Training, the same for every model: one loop one can read.

Lightning Fabric chooses the devices, connects the processes and sets the precision; all else is here. The state of a
run, its counters, is in :class:`gln.training.progress.Progress`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from gln.errors import GLNError
from gln.evaluation.padded import BestThreshold
from gln.graphs import GraphBatch, as_graphs
from gln.graphs.convert import share_kinds
from gln.graphs.features import feature_noise
from gln.graphs.record import NAMES, Graph
from gln.models import StructureOutput
from gln.models.contract import Generates, Prepares, Replayable, check_kinds, kinds_of
from gln.ops.replay import Ahead, Replay, on_the_way
from gln.storage.models import annotate, check_model, check_weights, load_weights, save, write_model
from gln.storage.runs import (
    Checkpoint,
    RunFolder,
    describe_run,
    read_checkpoint,
    restore_optimizer,
    write_checkpoint,
)
from gln.threads import at_most, threads_for
from gln.training.config import FREE, FitConfig
from gln.training.data import Augment, Feed, Share, Source, describe, seed_step, warn_of_scales
from gln.training.losses import KindScores, usual_loss
from gln.training.losses import Loss as DefaultLoss
from gln.training.processes import (
    Place,
    StopSignal,
    clear_errors,
    make_fabric,
    quiet,
    suited,
    with_others,
)
from gln.training.progress import Average, Progress, Recorder, is_finished, resumed

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FIRST = 32  # training graphs to watch the loss on, where there are no others
SHARED = 60.0  # seconds that a file may take to appear on another machine

Loss = Callable[[StructureOutput, GraphBatch, nn.Module], Tensor]
Drawn = dict[str, Tensor] | None  # what a model draws for a step that is replayed


@dataclass(frozen=True)
class FitResult:
    """The result of a training run.

    ==============  =====================================================================================
    ``history``     one row per epoch: epoch, step, train_loss, val_loss, val_iou, threshold, seconds, and the scores
                    of :class:`gln.training.losses.KindScores` if the model predicts kinds
    ``best_iou``    the highest validation IoU (with kinds: that of the highest score), and
    ``best_epoch``  the epoch, counted from 1, that reached it at the lowest loss; the model is left there
    ``threshold``   the decision threshold chosen in that epoch, now ``model.threshold``
    ``run``         the run folder, if one was asked for
    ==============  =====================================================================================
    """

    history: list[dict[str, Any]]
    best_iou: float
    best_epoch: int
    threshold: float
    run: Path | None

    def __str__(self) -> str:
        where = f"; {self.run}" if self.run else ""
        return (
            f"validation IoU {self.best_iou:.4f} in epoch {self.best_epoch} of {len(self.history)}, "
            f"threshold {self.threshold:.2f}{where}"
        )


def fit(
    model: nn.Module,
    train: Source,
    val: Sequence[Graph] | None = None,
    *,
    run: Path | str | None = None,
    resume: bool = False,
    loss: Loss | None = None,
    augment: Augment | None = None,
    config: FitConfig | None = None,
    **settings: Any,
) -> FitResult:
    """Train ``model`` and leave it at its best epoch, with the threshold that suits the validation graphs best.

    Args:
        model: any model as described in :mod:`gln.models`; it is left on the device it was trained on.
        train: graphs, or a function from the epoch to graphs, such as :class:`gln.Fresh`.
        val: graphs on which the best epoch and the decision threshold are chosen; may be left out only for a model that
            keeps its last epoch, such as :class:`gln.GraphFlow`, and is then the first of ``train``.
        run: a folder for checkpoints, logs and the trained model; without it, nothing is saved.
        resume: continue the run in ``run`` exactly where it stands, or start it if there is none.
        loss: per-graph losses ``[B]`` of a batch; default: :func:`gln.training.losses.usual_loss`.
        augment: changes a training graph, with a random generator seeded by seed, epoch and graph.
        config: the settings; default: :class:`FitConfig`.
        settings: single settings by name, such as ``epochs=20``; see :class:`FitConfig`.
    """
    config = suited((config or FitConfig()).changed(**settings), model)
    check_model(model)
    if resume and run is None:
        raise GLNError("Got resume=True without a run folder; give run= the folder of the run to continue.")
    loss = loss or usual_loss(model)
    source: Source = train if callable(train) else as_graphs(train, "train")
    if val is None:
        if not config.keep_last:
            raise GLNError("Got no val graphs, by which the best epoch is chosen; give some.")
        val = (source(0) if callable(source) else source)[:FIRST]
    graphs = as_graphs(val, "val")
    check_kinds(model, graphs, "val")
    if not callable(source):
        share_kinds([*source, *graphs])  # words for types have one numbering
        check_kinds(model, source, "train")
    if isinstance(model, Prepares):
        model.prepare(as_graphs(source(0), "train") if callable(source) else source)
    warn_of_scales(model, graphs)
    with TemporaryDirectory(prefix="gln-") if run is None else nullcontext(run) as path, quiet():
        folder = RunFolder(Path(path), kept=run is not None)
        fabric, place, devices = make_fabric(config)
        if run is None and place.world > 1:
            raise GLNError(f"{place.world} processes need a shared folder; give run=.")
        if place.rank == 0:
            data = {"train": describe(source), "val": describe(graphs)}
            folder.begin(describe_run(asdict(config), model, loss, augment, data), resume, FREE)
        checkpoint = read_checkpoint(folder.checkpoint) if resume and folder.checkpoint.exists() else None
        on_gpu = fabric.device.type == "cuda"
        # A loss of the user's own may decide something on the host.
        known = isinstance(model, Replayable) and isinstance(loss, DefaultLoss)
        replay = on_gpu and place.world == 1 and known
        if checkpoint is None or not is_finished(resumed(checkpoint.progress, folder.checkpoint), config):
            with (
                # Of several processes, each may reseed its own GPU.
                torch.random.fork_rng(devices=[fabric.device] if on_gpu and place.world == 1 else []),
                clear_errors(folder),
                with_others(place, devices, folder),
                StopSignal() as stop,
                # What is to be recorded must not run on the default stream.
                torch.cuda.stream(torch.cuda.Stream(fabric.device)) if replay else nullcontext(),
            ):
                fabric.launch()  # the processes find each other
                feed = Feed(source, graphs, augment, config, place.rank, place.world, on_gpu, model=model)
                feed.device = fabric.device if replay else None
                Loop(fabric, place, model, loss, feed, config, folder, stop).run(checkpoint)
        return _finish(model, config, folder, place, fabric.device)


def _finish(
    model: nn.Module, config: FitConfig, folder: RunFolder, place: Place, device: torch.device
) -> FitResult:
    """Leave the model at its best epoch, here and in the folder; read from there, where the first process wrote it."""
    checkpoint = read_checkpoint(folder.checkpoint)
    load_weights(model, checkpoint.best, folder.checkpoint)
    at = resumed(checkpoint.progress, folder.checkpoint)
    if at.best is None or at.best_epoch is None:
        raise GLNError(
            f"{folder.checkpoint} says that training is finished, but names no best epoch; use another."
        )
    annotate(model, at.threshold, at.facts(config.seed))
    if folder.kept and place.rank == 0:
        save(model, folder.path)
    model.to(device).eval()
    return FitResult(at.history, at.best, at.best_epoch, at.threshold, folder.path if folder.kept else None)


@contextmanager
def compiled_steps(model: nn.Module, made: list[Any] | None = None, **options: Any) -> Iterator[None]:
    """Apply ``torch.compile`` with ``options`` to the steps of ``model`` for a while.

    The steps, its ``blocks``, are alike, so what is compiled for one serves all: a third of the time to compile the
    whole network; so are the layers in front of them. A model without them is compiled as a whole. ``made`` keeps what
    was compiled for the next time.
    """
    blocks = list(getattr(model, "blocks", []))
    parts = [*blocks, *(layers for layers in model.children() if isinstance(layers, nn.Sequential))]
    parts = parts if blocks else [model]
    made = [] if made is None else made
    made[len(made) :] = [torch.compile(part.forward, **options) for part in parts[len(made) :]]
    for part, compiled in zip(parts, made, strict=True):
        part.forward = compiled  # hides the method of the class
    try:
        yield
    finally:
        for part in parts:
            del part.forward


@dataclass(eq=False)
class Loop:
    """One training run of ``model`` by the process at ``place``; arguments as in :func:`gln.fit`.

    Loss, gradient norm, and the wishes to write and to stop are equal in all processes, so that all of them stop, fail
    or write at the same step; a process on its own would leave the others waiting for its gradients.
    """

    fabric: Fabric
    place: Place
    model: nn.Module
    loss: Loss
    feed: Feed
    config: FitConfig
    folder: RunFolder
    stop: StopSignal

    def begin(self, checkpoint: Checkpoint | None) -> None:
        """Put everything where ``checkpoint`` left it, or at the start."""
        self.device = self.fabric.device
        self.progress = Progress()
        self.best_weights: dict[str, Tensor] = {}
        if checkpoint is not None:
            load_weights(self.model, checkpoint.weights, self.folder.checkpoint)
            self.progress = resumed(checkpoint.progress, self.folder.checkpoint)
            self.best_weights = checkpoint.best
            if self.progress.best_epoch is not None:
                check_weights(self.model, checkpoint.best, self.folder.checkpoint)
        self.model.to(self.device).train()
        self.shared = self.fabric.strategy.setup_module(self.model)  # averages gradients over the processes
        self.optimizer = make_optimizer(self.model, self.config)
        self.average = Average(self.model, self.config.average) if self.config.average else None
        if checkpoint is not None:
            restore_optimizer(self.optimizer, checkpoint.optimizer, self.folder.checkpoint)
            if self.average is not None:
                self.average.restore(checkpoint.average)
        self.compiled: list[Any] = []
        self.compiled_loss = self.loss
        if self.config.compile and isinstance(self.loss, DefaultLoss):
            self.compiled_loss = torch.compile(self.loss.__call__)
        self.replay = None if self.feed.device is None else Replay(self._replayed)
        self.ahead = None if self.replay is None else Ahead()
        # Of the last step: its share, its lr, and what reads its numbers [4].
        self.unread: tuple[Share, float, Callable[[], list[float]]] | None = None
        self.write_due = self.stop_due = False
        self.clock = self.written = time.monotonic()
        self.written_epoch: int | None = None  # the epoch whose weights are in the run folder's model files
        log = self.folder.tensorboard if self.folder.kept else None
        self.recorder = Recorder(self.place.rank == 0, log, self.config, self.progress.step)

    def run(self, checkpoint: Checkpoint | None) -> None:
        """Train to the last epoch, from ``checkpoint`` or from the start."""
        self.begin(checkpoint)
        at = self.progress
        try:
            if at.step == 0:
                self._write()  # so that a run killed in its first minutes restarts from the same weights
            if self.place.world > 1:
                self._check_shared()
            while not is_finished(at, self.config):
                self._train_epoch()
                with nullcontext() if self.average is None else self.average.in_place():
                    scores, kept = self._validate(), self.model.state_dict()
                    kept = {name: value.clone() for name, value in kept.items()}
                self._end_epoch(scores, kept)
            self.fabric.barrier()  # so that no process reads what the first has not written yet
        except GLNError:
            self._write_best()  # if the weights turn out to be broken, those of the best epoch are still good
            raise
        finally:
            self.recorder.close()

    def _train_epoch(self) -> None:
        """The rest of the current epoch."""
        at = self.progress
        graphs = self.feed.graphs(at.epoch)
        at.noise = at.noise or feature_noise(graphs)
        at.names = at.names or {name: list(graphs[0][name]) for name in NAMES if name in graphs[0]}
        loader, batches = self.feed.train_loader(graphs, at.epoch, at.batch)
        self.recorder.begin_epoch(at.epoch, batches, at.batch)
        for share, drawn in self._prepared(iter(loader)):
            lr = self.config.lr_at(at.epoch, at.batch, batches)
            set_lr(self.optimizer, lr)
            if self.average is not None:
                self.average.at_step(at.step)
            with at_most(threads_for(*share.batch.mask.shape[:2])):
                numbers = on_the_way(self._over_processes(self.step(share, drawn)))
            self._read_numbers()  # of the step before this one, so that we need not wait for the accelerator
            self.unread = share, lr, numbers
            at.batch, at.step = at.batch + 1, at.step + 1
            if (self.write_due or self.stop_due) and at.batch < batches:
                self._read_numbers()
                self._write()
                if self.stop_due:
                    raise KeyboardInterrupt

    def _prepared(self, shares: Iterator[Share]) -> Iterator[tuple[Share, Drawn]]:
        """Every share on the device, and what the model draws for its step if that is to be replayed."""

        def prepare() -> tuple[Share, Drawn] | None:
            share = next(shares, None)
            if share is None:
                return None
            share = share.to(self.device)
            at = self.progress
            # Alike in all processes, which so score as many candidates; but each draws noise of its own.
            own = [self.place.rank] if self.place.world > 1 and isinstance(self.model, Generates) else []
            seed_step(self.device, self.config.seed, at.epoch, at.batch, *own)
            # The last batch of an epoch may be short.
            whole = len(share.batch) == self.config.batch_size
            replayed = self.replay is not None and whole
            return share, cast(Replayable, self.model).draw(share.batch) if replayed else None

        while (prepared := prepare() if self.ahead is None else self.ahead(prepare)) is not None:
            yield prepared

    def step(self, share: Share, drawn: Drawn) -> Tensor:
        """One step of training; the loss and the norm of the gradient, ``[2]``."""
        if self.replay is None or drawn is None:
            return self._step(share.batch, share.weight)
        tensors = {name: value for name, value in vars(share.batch).items() if isinstance(value, Tensor)}
        return self.replay(tensors, drawn).clone()

    def _replayed(self, inputs: dict[str, Tensor], drawn: dict[str, Tensor]) -> Tensor:
        """The step of a whole batch, from tensors alone."""
        names = [field.name for field in fields(GraphBatch) if field.name != "directed"]
        batch = GraphBatch(**{name: inputs.get(name) for name in names})  # type: ignore[arg-type]
        return self._step(batch, 1 / len(batch), **drawn)

    def _step(self, batch: GraphBatch, weight: float, **drawn: Tensor) -> Tensor:
        """Forward, loss, backward, clipping, update. Nothing here waits for the device."""
        self.optimizer.zero_grad()
        # For a short batch, compiling does not pay.
        whole = len(batch) * self.place.world >= self.config.batch_size
        if self.config.compile and whole:
            with compiled_steps(self.model, self.compiled):
                losses, _ = self._forward(self.compiled_loss, batch, **drawn)
        else:
            losses, _ = self._forward(self.loss, batch, **drawn)
        loss = losses.sum() * weight
        loss.backward()
        # Gradients are already averaged over the processes, so all of them see the same norm.
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        return torch.stack([loss.detach(), norm])

    def _forward(self, loss: Loss, batch: GraphBatch, **drawn: Tensor) -> tuple[Tensor, StructureOutput]:
        """The loss of every graph, ``[B]``, in full precision, and the output of the model."""
        with self.fabric.autocast():
            output = self.shared(batch, **drawn)
        return loss(output.full_precision(), batch, self.model), output

    def _over_processes(self, numbers: Tensor) -> Tensor:
        """Loss and norm, and the wishes to write and to stop, ``[4]``: the mean over all processes."""
        due = time.monotonic() - self.written >= 60 * self.config.checkpoint_minutes
        wishes = torch.tensor([float(due), float(self.stop.asked)]).to(self.device, non_blocking=True)
        return self.fabric.strategy.all_reduce(torch.cat([numbers, wishes]), reduce_op="mean")

    def _read_numbers(self) -> None:
        """Process the last step done; a number that is not finite ends the run before anything is written."""
        if self.unread is None:
            return
        (share, lr, numbers), self.unread, at = self.unread, None, self.progress
        loss, norm, due, stop = numbers()
        if not math.isfinite(loss + norm):
            what = f"gradient norm is {norm}" if math.isfinite(loss) else f"loss is {loss}"
            raise GLNError(
                f"The {what} at step {at.step} (epoch {at.epoch + 1}, batch {at.batch}: "
                f"graphs {', '.join(map(str, share.numbers))}); the last good checkpoint is kept; "
                "train again with a lower lr, or check these graphs."
            )
        at.loss_sum, at.graphs = at.loss_sum + loss * share.total, at.graphs + share.total
        self.write_due |= due > 0
        self.stop_due |= stop > 0
        self.recorder.step(at.step, {"loss": loss, "gradient_norm": norm, "lr": lr})

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Mean loss over the validation graphs, and the best threshold with the IoU it reaches."""
        self._read_numbers()
        kinds = kinds_of(self.model)
        best = BestThreshold(entries="directed" if kinds.directed else "pairs").to(self.device)
        total = torch.zeros((), device=self.device)
        told = KindScores(kinds, torch.zeros(6, device=self.device))
        self.model.eval()
        for number, share in enumerate(self.feed.val_loader()):
            share = share.to(self.device)
            seed_step(self.device, self.config.seed, 0, number, self.place.rank)
            with at_most(threads_for(*share.batch.mask.shape[:2])):
                losses, output = self._forward(self.loss, share.batch)
                if share.weight:  # a placeholder only keeps the process in step
                    total += losses.sum()
                    best.update(output.soft_adjacency(), share.batch.adj, share.batch.mask)
                    told.update(output, share.batch)
        self.model.train()
        loss = float(self.fabric.strategy.all_reduce(total, reduce_op="sum")) / len(self.feed.val)
        at = self.progress
        if not math.isfinite(loss):
            raise GLNError(
                f"The validation loss is {loss} after step {at.step} (epoch {at.epoch + 1}); the last good "
                "checkpoint is kept; train again with a lower lr, or check the validation graphs."
            )
        found = best.compute()
        iou = float(found["iou"])
        more = told.compute(self.fabric.strategy.all_reduce(told.sums, reduce_op="sum"), iou)
        return {"val_loss": loss, "val_iou": iou, "threshold": float(found["threshold"]), **more}

    def _end_epoch(self, scores: dict[str, float], weights: dict[str, Tensor]) -> None:
        self._tick()
        at = self.progress
        if at.end_epoch(scores, bool(self.config.keep_last)):
            self.best_weights = weights
        self.recorder.end_epoch(at.history[-1])
        if self.place.rank == 0:
            self.folder.write_metrics(at.history)
        finished = is_finished(at, self.config)
        if self.write_due or self.stop_due or finished:
            self._write()
        if self.stop_due and not finished:
            raise KeyboardInterrupt

    def _check_shared(self) -> None:
        """Refuse processes, usually on several machines, that do not see the same run folder."""
        self.fabric.barrier()
        end = time.monotonic() + SHARED
        while not (seen := self.folder.checkpoint.exists()) and time.monotonic() < end:
            time.sleep(0.1)
        step = self.progress.step
        mine = torch.tensor([seen, step, -step], device=self.device)
        least = self.fabric.strategy.all_reduce(mine, reduce_op="min").tolist()
        if not least[0] or least[1] != -least[2]:
            raise GLNError(
                f"The processes do not see the same files in {self.folder.path}; give a folder on a disk that all of "
                "them share."
            )

    def _write(self) -> None:
        """Write the state of the run and the best model so far."""
        self._tick()
        self.written, self.write_due = self.clock, False
        if self.place.rank == 0:
            weights, path = self.model.state_dict(), self.folder.checkpoint
            means = {} if self.average is None else self.average.state()
            write_checkpoint(path, weights, self.best_weights, self.optimizer, asdict(self.progress), means)
            self._write_best()

    def _write_best(self) -> None:
        stale = self.written_epoch != self.progress.best_epoch
        if stale and self.folder.kept and self.place.rank == 0:
            self.written_epoch = self.progress.best_epoch
            annotate(self.model, self.progress.threshold, self.progress.facts(self.config.seed))
            write_model(self.model, self.best_weights, self.folder.path)

    def _tick(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self.clock
        self.clock = now


def make_optimizer(model: nn.Module, config: FitConfig) -> Optimizer:
    """The optimiser of ``model``, which is on its device."""
    kind = {"adamw": AdamW, "adam": Adam}[config.optimizer]
    weights = list(model.parameters())
    on_gpu = weights[0].device.type == "cuda"
    # All weights in one kernel, which can be recorded.
    there: dict[str, Any] = {"fused": on_gpu, "capturable": on_gpu}
    optimizer = kind(weights, lr=config.lr, weight_decay=config.weight_decay, **there)
    if on_gpu:
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(config.lr, device=weights[0].device)
    return optimizer


def set_lr(optimizer: Optimizer, lr: float) -> None:
    """Train with this learning rate from now on; where steps are recorded, it is a tensor that they read."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr

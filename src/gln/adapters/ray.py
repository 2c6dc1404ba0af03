"""Prediction on a Ray cluster (``gln[ray]``): an engine for ``gln predict``, and sets in a Ray Dataset.

Ray places the workers, holds back what they cannot take yet, and starts again those that were killed.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gln.errors import GLNError, needed, quote
from gln.inference.choice import Choice
from gln.io import Item, ReadOptions
from gln.io.items import Source
from gln.io.streams import ListRoles, arrow, is_list
from gln.workflows.answers import ask_each
from gln.workflows.engines import TRIES, Engine, Server, Task, Work, pickled, spread
from gln.workflows.methods import load_for, put_on

PATIENCE = 300.0  # seconds in which a worker that was killed must be made again


def _ray(module: str = "ray") -> Any:
    return needed(module, "--engine ray and gln.adapters.ray", "ray")


def on_ray(count: int | None = None, address: str | None = None) -> Engine:
    """``count`` workers, by default one for each GPU or, without any, for each core of the cluster.

    With more workers than GPUs, each has a share of one. Without an ``address``, Ray is started here, unless this
    program has done so, and stopped in the end.
    """
    _ray()

    def run(work: Work, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        ray = _ray()
        ours = not ray.is_initialized()
        if ours:
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
            except (ConnectionError, ValueError) as error:
                where = f"Ray is not at {address}" if address else "Ray cannot be started or reached here"
                what = f"{where} ({quote(str(error))})"
                raise GLNError(f"{what}; see ray status, or stop and start it again.") from None
        try:
            there = ray.cluster_resources()
            gpus = int(there.get("GPU", 0))
            wanted = count or gpus or int(there.get("CPU", 1))
            share = 1 if wanted <= gpus else gpus / wanted
            again = {"max_restarts": -1, "max_task_retries": TRIES - 1}
            kind = ray.remote(num_cpus=1, num_gpus=share, **again)(Server)
            copy = ray.put(pickled(work))  # kept, as workers that are made again need it
            # Each sees only its own GPU, as number 0.
            workers = [partial(_ask, kind.remote(copy, 0)) for _ in range(wanted)]
            yield from spread(workers, tasks, lambda worker: ray.kill(worker.args[0]))
        finally:
            if ours:
                ray.shutdown()

    return run


def _ask(actor: Any, task: bytes) -> Any:
    """What the actor answers; ``None`` if the task has cost too many processes."""
    ray, errors = _ray(), _ray("ray.exceptions")
    try:
        return pickle.loads(ray.get(actor.compute.remote(task)))
    except errors.RayTaskError as error:
        raise error.cause if isinstance(error.cause, GLNError) else error from None
    except errors.RayError:
        with suppress(errors.RayError):  # once it is made again, or else nothing is wrong with the task
            ray.get(actor.__ray_ready__.remote(), timeout=PATIENCE)
            return None
    raise GLNError(
        "The Ray cluster was lost; start it again and repeat the command: a folder keeps what is done."
    )


def predict_dataset(
    model: Any,
    sets: Any,
    *,
    device: str = "auto",
    batch_size: int = 256,
    choice: Choice | None = None,
    **ray: Any,
) -> Any:
    """The edges of all sets of a Ray Dataset, as a Dataset: its columns, and lists source, target and probability.

    A set that cannot be predicted has no edges, and the reason in the column ``error``.

    Args:
        model: a model, the name of a shipped one, or the folder of a saved one that all machines see.
        sets: a row per set, with lists of its nodes' coordinates, as ``gln predict`` reads them from Parquet.
        device: where each worker computes.
        batch_size: sets at a time.
        choice: which edges to keep, and from how many steps and candidates.
        ray: further arguments of ``Dataset.map_batches``: concurrency (how many workers), num_gpus (a share for each),
            num_cpus, …
    """
    _ray("ray.data")
    given = {"concurrency": 1} | ray
    made = {"model": model, "device": device, "choice": choice or Choice()}
    return sets.map_batches(
        SetPredictor, fn_constructor_kwargs=made, batch_size=batch_size, batch_format="pyarrow", **given
    )


class SetPredictor:
    """Predicts tables of sets, for :func:`predict_dataset` or another engine that maps tables."""

    def __init__(self, model: Any, device: str = "auto", choice: Choice | None = None) -> None:
        found = load_for("predict", model) if isinstance(model, str | Path) else model
        self.model, self.choice = put_on(found, device), choice or Choice()

    def __call__(self, table: Any) -> Any:
        """``table`` with the columns source, target, probability and error."""
        pa = arrow()
        lists = [column.name for column in table.schema if is_list(column.type)]
        roles = ListRoles(table.schema.names, lists, ReadOptions())
        source = Source(Path("dataset"), "dataset")
        read = list(roles.read(table.combine_chunks().to_batches()[0], source))
        answers = iter(ask_each(self.model, [one for one in read if isinstance(one, Item)], self.choice))
        results = [next(answers) if isinstance(one, Item) else one.reason for one in read]
        found = [([], [], [], one) if isinstance(one, str) else _lists_of(one) for one in results]
        kinds = (pa.list_(pa.int64()), pa.list_(pa.int64()), pa.list_(pa.float32()), pa.string())
        names = ("source", "target", "probability", "error")
        for name, kind, values in zip(names, kinds, zip(*found, strict=True), strict=True):
            if name in table.schema.names:  # true edges, of which a prediction takes the place
                table = table.drop_columns([name])
            table = table.append_column(name, pa.array(list(values), kind))
        return table


def _lists_of(answer: Any) -> tuple[list[int], list[int], list[float], None]:
    pairs, chances = answer.scored_once()
    return pairs[:, 0].tolist(), pairs[:, 1].tolist(), chances.tolist(), None

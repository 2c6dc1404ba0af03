"""Time and memory of one very large mesh from points: of which the model, and of which the faces?"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.common import device_name, peak_memory, timed
from gln.decoding.faces import describe
from gln.errors import GLNError
from gln.inference.choice import Choice
from gln.inference.predict import as_points, predict_graphs
from gln.models.settings import input_widths
from gln.storage.models import load_model
from gln.workflows.forms import FEWEST, LEAST, check_points, faces_of

WARM = 5_000  # points of a first mesh, so that kernels are compiled and files read before the clock starts
WAVES = 12  # on the bumpy sphere
STEP = 1e-4  # of a parameter, over which a surface is differentiated
TURN = 2 * np.pi

Place = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of two parameters [n], each of 0 to 1: points [n, 3]


def run(
    points: tuple[int, ...] = (100_000, 1_000_000), model: str = "shapes", seed: int = 0
) -> dict[str, Any]:
    """Seconds of a closed mesh of so many points at random, by the steps of ``gln.mesh``, on the device at hand.

    The points lie on two closed surfaces that do not touch, a sphere with bumps and a tube along a knot, half of them
    on each, uniformly by area, without noise and in no order. The clock runs from points in memory to faces in memory,
    after a first mesh of 5 000 points. GPU memory is the most that tensors held, and ``memory_gib`` the peak of the
    whole process so far.

    Args:
        points: how many, of every mesh.
        model: a saved model or the name of a shipped one.
        seed: of the points.
    """
    if not points or min(points) < FEWEST:
        raise GLNError(f"Got points={points}; expected sizes of at least {FEWEST} points.")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    asked = load_model(model).to(device)
    first = measure(asked, WARM, seed)["seconds"]
    settings = {
        "model": model,
        "device": device_name(),
        "seed": seed,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "first_seconds": first,
    }
    return {
        "name": "mesh-scale",
        "rows": [measure(asked, count, seed) for count in points],
        "settings": settings,
    }


def measure(model: torch.nn.Module, count: int, seed: int) -> dict[str, Any]:
    """One mesh."""
    where = sample(count, seed)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    graph, checking = timed(lambda: check_points(as_points(where, None, input_widths(model))))
    answers, predicting = timed(partial(predict_graphs, model, [graph], Choice(LEAST)))
    faces, finding = timed(partial(faces_of, graph, answers[0], False))
    facts = describe(count, faces)
    return {
        "points": count,
        "seconds": checking + predicting + finding,
        "prediction_seconds": predicting,
        "faces_seconds": finding,
        "watertight": facts.watertight,
        "faces": facts.faces,
        "pieces": facts.pieces,
        "unused": facts.unused,
        "gpu_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        "memory_gib": peak_memory(),
    }


def sample(count: int, seed: int) -> np.ndarray:
    """Points ``[n, 3]`` on both surfaces, in no order."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([uniform(bumpy_sphere, count // 2, rng), uniform(knot, count - count // 2, rng)])
    points[count // 2 :, 0] += 3.5
    return rng.permutation(points).astype(np.float32)


def uniform(place: Place, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points ``[n, 3]``, uniform over the area of a surface: a place is kept as often as its area is large."""
    most = 1.05 * _area(place, *np.meshgrid(*[np.linspace(0, 1, 400)] * 2)).max()
    points = np.empty((0, 3))
    while len(points) < count:
        u, v = rng.random((2, count))
        kept = rng.random(count) * most < _area(place, u, v)
        points = np.concatenate([points, place(u[kept], v[kept])])
    return points[:count]


def _area(place: Place, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    along, across = place(u + STEP, v) - place(u - STEP, v), place(u, v + STEP) - place(u, v - STEP)
    return np.linalg.norm(np.cross(along, across), axis=-1)


def bumpy_sphere(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A sphere of radius 1 with waves in many directions: radii of about 0.85 to 1.15."""
    tilt, turn = np.pi * u, TURN * v
    way = np.stack([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt)], axis=-1)
    rng = np.random.default_rng(WAVES)
    waves, phase = rng.normal(0, 8, (3, WAVES)), TURN * rng.random(WAVES)
    return way * (1 + 0.02 * np.sin(way @ waves + phase).sum(-1, keepdims=True))


def knot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A tube around a trefoil, thicker and thinner along it."""
    turn, around = TURN * u, TURN * v
    along = _trefoil(turn + STEP) - _trefoil(turn - STEP)
    along /= np.linalg.norm(along, axis=-1, keepdims=True)
    aside = np.cross(along, [0.0, 0.0, 1.0])  # the trefoil never runs upright
    aside /= np.linalg.norm(aside, axis=-1, keepdims=True)
    thick = 0.2 * (1 + 0.25 * np.sin(15 * turn))[..., None]
    return _trefoil(turn) + thick * (
        np.cos(around)[..., None] * aside + np.sin(around)[..., None] * np.cross(aside, along)
    )


def _trefoil(turn: np.ndarray) -> np.ndarray:
    far = 1 + 0.45 * np.cos(3 * turn)
    return np.stack([far * np.cos(2 * turn), far * np.sin(2 * turn), 0.45 * np.sin(3 * turn)], axis=-1)

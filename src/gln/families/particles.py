"""Particles and oscillators that act on each other: the simulations of Neural Relational Inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gln.families.base import Family, register
from gln.graphs.record import Graph
from gln.later import torch
from gln.ops.loops import compiled

KINDS = ("springs", "charged", "kuramoto")
CHARGED_TYPES = ("attract", "repel")  # the words for the types 0 and 1, numbered as in the released code

# "paper": Kipf, Fetaya, Wang, Welling, Zemel 2018, Neural Relational Inference for Interacting Systems, appendix B.
# "released": its public code, data/synthetic_sim.py and data/generate_dataset.py, which has no oscillators.
SAMPLES = 49  # released: 5 000 steps, of which every 100th is stored, without the first and the last
# Steps from sample to sample: released, released, paper.
EVERY = {"springs": 100, "charged": 100, "kuramoto": 10}
BOX = 5.0  # released: walls at ±5 in both directions, from which particles bounce elastically
STEP = 0.001  # released: of the leapfrog integration
SPREAD = {"springs": 0.5, "charged": 1.0}  # released: deviation of the normal first positions
SPEED = 0.5  # released: of every particle at first, in a random direction
STRENGTH = {"springs": 0.1, "charged": 1.0}  # released: F = −.1 (rᵢ − rⱼ); F = qᵢ qⱼ (rᵢ − rⱼ) / |rᵢ − rⱼ|³
MOST_FORCE = 0.1 / STEP  # released: each component of the force on a particle is clipped to ± that
JOINED = 0.5  # paper, released: the share of pairs with a spring or a coupling, and of particles of charge +1
PHASE_STEP = 0.01  # paper: of the fourth-order Runge–Kutta integration
FREQUENCY = (1.0, 10.0)  # paper: uniform
COUPLING = 1.0  # paper; with sin(φⱼ − φᵢ), as Kuramoto has it: coupled oscillators pull each other together

# Ours, where the released code divides by the range of its training data: constants that need no data. Positions are
# divided by BOX, velocities by FAST, and frequencies and dφ/dt, less MIDDLE, by REACH. Positions and frequencies never
# exceed ±1, the others once in thousands of values.
FAST = {"springs": 1.5, "charged": 5.0}
MIDDLE, REACH = 5.5, {"dφ/dt": 9.0, "ω": 4.5}


@register("particles")
@dataclass(frozen=True, kw_only=True)
class Particles(Family):
    """Trajectories of particles or oscillators as features, joined where one acts on the other.

    =========  ==============================================================  ===============================
    kind       who acts on whom                                                four features at each of 49 times
    =========  ==============================================================  ===============================
    springs    half the pairs have a spring, which is the edge                 x, y, dx/dt, dy/dt
    charged    every pair: charges are ±1; ``edge_type`` 0 attract, 1 repel    x, y, dx/dt, dy/dt
    kuramoto   half the pairs of oscillators are coupled, which is the edge    dφ/dt, sin φ, cos φ, ω
    =========  ==============================================================  ===============================

    All constants are those of Neural Relational Inference, stated with their source at the top of the module, except
    for the scale of the features and cos φ, for which the paper has φ. There is no noise, as in the released code.
    Graphs have ``x [n, 196]``, time after time, and no ``pos``: where a particle is changes.

    Args:
        count: number of particles, at least 2 (paper: 5 and 10).
        kind: one of ``KINDS``.
    """

    count: int = 5
    kind: str = "springs"

    least: ClassVar = {"count": 2}
    choices: ClassVar = {"kind": KINDS}

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        n = self.count
        if self.kind == "charged":
            charge = np.where(rng.random((count, n)) < JOINED, 1.0, -1.0)
            # [count, n, n]: above 0 where two push each other apart.
            force = charge[:, :, None] * charge[:, None]
        else:
            joined = np.tril(rng.random((count, n, n)) < JOINED, -1)
            force = (joined | joined.swapaxes(1, 2)).astype(np.float64)
        seen = _oscillate(rng, force) if self.kind == "kuramoto" else _move(rng, self.kind, force)
        x = seen.swapaxes(1, 2).reshape(count, n, -1).astype(np.float32)  # [count, n, 196]
        return [self._graph(*one) for one in zip(x, force, strict=True)]

    def _graph(self, x: np.ndarray, force: np.ndarray) -> Graph:
        pairs = np.argwhere((force != 0) & ~np.eye(self.count, dtype=bool)).T
        kinds = {}
        if self.kind == "charged":
            types = torch.from_numpy((force[tuple(pairs)] > 0).astype(np.int64))
            kinds = {"edge_type": types, "edge_type_names": CHARGED_TYPES}
        edge_index = torch.from_numpy(np.ascontiguousarray(pairs))
        return Graph(self.count, x=torch.from_numpy(x), edge_index=edge_index, **kinds)


def _move(rng: np.random.Generator, kind: str, force: np.ndarray) -> np.ndarray:
    """Positions and velocities of the particles in time, scaled: ``[count, 49, n, 4]``."""
    count, n, _ = force.shape
    place = rng.normal(0, SPREAD[kind], (count, n, 2))
    angle = rng.uniform(0, 2 * np.pi, (count, n))
    speed = SPEED * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    seen = np.empty((count, SAMPLES, n, 4))
    sign = -1 if kind == "springs" else 1
    compiled(_leapfrog, exact=True)(
        place, speed, sign * STRENGTH[kind] * force, kind == "charged", EVERY[kind], seen
    )
    return seen / [BOX, BOX, FAST[kind], FAST[kind]]


def _oscillate(rng: np.random.Generator, joined: np.ndarray) -> np.ndarray:
    """What is seen of the oscillators in time, scaled: ``[count, 49, n, 4]``."""
    count, n, _ = joined.shape
    frequency = rng.uniform(*FREQUENCY, (count, n))
    phase = rng.uniform(0, 2 * np.pi, (count, n))
    seen = np.empty((count, SAMPLES, n, 4))
    seen[..., 3] = frequency[:, None]
    compiled(_runge_kutta, exact=True)(phase, frequency, COUPLING * joined, EVERY["kuramoto"], seen)
    return (seen - [MIDDLE, 0, 0, MIDDLE]) / [REACH["dφ/dt"], 1, 1, REACH["ω"]]


def _leapfrog(place, speed, force, inverse_square, every, seen):  # type: ignore[no-untyped-def]
    """Move particles at ``place [S, n, 2]`` with ``speed [S, n, 2]``; fill ``seen [S, T, n, 4]`` every so many steps.

    ``force [S, n, n]`` times the vector between two particles is the force, by Coulomb divided by their distance cubed.
    """
    n = place.shape[1]
    push = np.empty((n, 2))
    for s in range(len(place)):
        x, v = place[s], speed[s]
        for step in range(seen.shape[1] * every):
            push[:] = 0
            for i in range(n):
                for j in range(i):
                    along, across = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1]
                    size = force[s, i, j]
                    if inverse_square:
                        square = along * along + across * across
                        size /= square * np.sqrt(square)
                    push[i, 0] += size * along
                    push[i, 1] += size * across
                    push[j, 0] -= size * along
                    push[j, 1] -= size * across
            for i in range(n):
                for axis in range(2):
                    v[i, axis] += STEP * min(max(push[i, axis], -MOST_FORCE), MOST_FORCE)
                    x[i, axis] += STEP * v[i, axis]
                    if abs(x[i, axis]) > BOX:
                        wall = BOX if x[i, axis] > 0 else -BOX
                        x[i, axis] = 2 * wall - x[i, axis]
                        v[i, axis] = -abs(v[i, axis]) if wall > 0 else abs(v[i, axis])
            if (step + 1) % every == 0:
                seen[s, step // every, :, :2] = x
                seen[s, step // every, :, 2:] = v


def _runge_kutta(phase, frequency, coupling, every, seen):  # type: ignore[no-untyped-def]
    """Turn oscillators at ``phase [S, n]``; fill dφ/dt, sin φ, cos φ of ``seen [S, T, n, 4]`` every so many steps."""
    n = phase.shape[1]
    rate, total, at = np.empty(n), np.empty(n), np.empty(n)
    for s in range(len(phase)):
        for step in range(seen.shape[1] * every):
            total[:] = 0
            at[:] = phase[s]
            for stage in range(4):
                for i in range(n):
                    rate[i] = frequency[s, i]
                    for j in range(n):
                        if coupling[s, i, j] != 0:
                            rate[i] += coupling[s, i, j] * np.sin(at[j] - at[i])
                if stage == 0 and step % every == 0:
                    seen[s, step // every, :, 0] = rate
                    seen[s, step // every, :, 1] = np.sin(at)
                    seen[s, step // every, :, 2] = np.cos(at)
                total += rate * (2 if stage in (1, 2) else 1)
                at[:] = phase[s] + rate * (PHASE_STEP if stage == 2 else PHASE_STEP / 2)
            phase[s] += total * (PHASE_STEP / 6)

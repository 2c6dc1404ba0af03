"""The simulations obey their equations and are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from gln.errors import GLNError
from gln.families import family
from gln.families.particles import (
    BOX,
    EVERY,
    FAST,
    MIDDLE,
    REACH,
    SAMPLES,
    SPEED,
    STRENGTH,
    _leapfrog,
)
from gln.ops.loops import compiled


def seen(graph) -> np.ndarray:
    """The trajectories, scaled: ``[49, n, 4]``."""
    return graph.x.double().numpy().reshape(graph.num_nodes, SAMPLES, 4).swapaxes(0, 1)


def matrix(graph) -> np.ndarray:
    out = np.zeros((graph.num_nodes, graph.num_nodes))
    types = torch.ones(graph.num_edges) if graph.edge_type is None else 2 * graph.edge_type - 1
    out[tuple(graph.edge_index.numpy())] = types.numpy()
    return out


def slowly(place: np.ndarray, speed: np.ndarray, sign: np.ndarray, kind: str, steps: int) -> list[np.ndarray]:
    """The same with one loop over time, as the released code describes it: kick, drift, bounce."""
    out = []
    for step in range(1, steps + 1):
        apart = place[:, None] - place[None]  # [n, n, 2]
        if kind == "charged":
            distance = np.linalg.norm(apart, axis=-1) + np.eye(len(place))
            force = (sign[..., None] * apart / distance[..., None] ** 3).sum(1)
        else:
            force = -STRENGTH[kind] * (sign[..., None] * apart).sum(1)
        speed = speed + 0.001 * force.clip(-100, 100)
        place = place + 0.001 * speed
        over, under = place > BOX, place < -BOX
        speed = np.where(over, -abs(speed), np.where(under, abs(speed), speed))
        place = np.where(over, 2 * BOX - place, np.where(under, -2 * BOX - place, place))
        if step % 100 == 0:
            out.append(np.hstack([place, speed]))
    return out


@pytest.mark.parametrize("kind", ["springs", "charged"])
def test_particles_move_as_a_plain_loop_moves_them(kind: str) -> None:
    rng, n, samples = np.random.default_rng(0), 4, 12
    place, speed = rng.uniform(-5, 5, (3, n, 2)), rng.uniform(-5, 5, (3, n, 2))  # fast: they meet walls
    sign = rng.integers(0, 2, (3, n, n))
    sign = np.tril(sign * 2 - 1 if kind == "charged" else sign, -1)
    sign = (sign + sign.swapaxes(1, 2)).astype(float)
    found = np.empty((3, samples, n, 4))
    force = (-1 if kind == "springs" else 1) * STRENGTH[kind] * sign
    compiled(_leapfrog, exact=True)(place.copy(), speed.copy(), force, kind == "charged", EVERY[kind], found)
    for index in range(3):
        expected = np.stack(slowly(place[index], speed[index], sign[index], kind, 100 * samples))
        np.testing.assert_allclose(found[index], expected, rtol=1e-7, atol=1e-9)


def test_springs_start_with_the_same_speed_and_half_the_pairs_are_joined() -> None:
    graphs = family("particles", count=6).graphs(300, seed=1)
    assert all(graph.pos is None and graph.x.shape == (6, 4 * SAMPLES) for graph in graphs)
    assert np.mean([graph.num_edges / 30 for graph in graphs]) == pytest.approx(0.5, abs=0.03)
    alone = [seen(graph)[0, node] for graph in graphs for node in range(6) if node not in graph.edge_index]
    speeds = np.linalg.norm([row[2:] * FAST["springs"] for row in alone], axis=1)
    np.testing.assert_allclose(speeds, SPEED, rtol=1e-5)


def test_like_charges_repel_and_every_pair_has_its_type() -> None:
    for graph in family("particles", kind="charged").graphs(40, seed=2):
        sign = matrix(graph)
        assert graph.num_edges == 20
        charge = np.append(1, sign[0, 1:])
        np.testing.assert_array_equal(sign, np.outer(charge, charge) - np.eye(5))
        assert graph.edge_type_names == ("attract", "repel")
    pairs = family("particles", count=2, kind="charged").graphs(200, seed=2)
    final = [np.linalg.norm(np.subtract(*seen(graph)[-1, :, :2])) for graph in pairs]
    repelled = np.array([int(graph.edge_type[0]) for graph in pairs]) == 1
    assert np.mean(np.array(final)[repelled]) > np.mean(np.array(final)[~repelled])


def test_oscillators_turn_by_their_equation() -> None:
    for graph in family("particles", kind="kuramoto").graphs(3, seed=3):
        rate, sine, cosine, frequency = np.moveaxis(seen(graph), -1, 0)  # [49, n] each
        rate = rate * REACH["dφ/dt"] + MIDDLE
        frequency = (frequency * REACH["ω"] + MIDDLE)[0]
        joined = matrix(graph)

        def turn(_: float, phase: np.ndarray, own=frequency, joined=joined) -> np.ndarray:
            return own + (joined * np.sin(phase[None] - phase[:, None])).sum(1)

        first = np.arctan2(sine[0], cosine[0])
        times = np.arange(SAMPLES) * 0.1
        exact = solve_ivp(turn, (0, times[-1]), first, t_eval=times, rtol=1e-10, atol=1e-10).y.T  # [49, n]
        np.testing.assert_allclose(sine, np.sin(exact), atol=2e-5)
        np.testing.assert_allclose(cosine, np.cos(exact), atol=2e-5)
        np.testing.assert_allclose(rate, [turn(0, phase) for phase in exact], atol=1e-4)
        assert (frequency >= 1).all()
        assert (frequency < 10).all()


@pytest.mark.parametrize("kind", ["springs", "charged", "kuramoto"])
def test_features_fill_the_range_from_minus_one_to_one(kind: str) -> None:
    for count in (5, 10):
        values = torch.stack([graph.x for graph in family("particles", count=count, kind=kind).graphs(60)])
        outside = (values.abs() > 1).float().mean()
        assert outside < 2e-3
        assert 0.1 < float(values.std()) < 0.8


def test_mistakes_are_named() -> None:
    with pytest.raises(GLNError, match="kind='planets'; choose from springs, charged, kuramoto"):
        family("particles", kind="planets")
    with pytest.raises(GLNError, match="count=1; expected a whole number of at least 2"):
        family("particles", count=1)

"""Noise in, graphs out: a flow, a baseline that samples, or the paper's generator mode of any other model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from gln.errors import GLNError
from gln.graphs import as_graphs
from gln.graphs.check import check_whole
from gln.graphs.features import feature_noise
from gln.graphs.record import ROWS, Graph
from gln.inference.predict import AS_TRAINED, CanSample, Choice, Method, predict_graphs
from gln.models.chain import AS_SET, Sampling
from gln.models.contract import Generates
from gln.seeds import GENERATE, check_seed

if TYPE_CHECKING:
    from torch_geometric.data import Data

MOST_NODES = 1_000_000  # of a graph, as when files are read


def generate(
    model: Method,
    count: int,
    seed: int = 0,
    *,
    like: Sequence[Any] | None = None,
    threshold: float | None = None,
    steps: int | None = None,
    batch_size: int = 32,
    sampling_steps: int | None = None,
    stochasticity: float | None = None,
    progress: bool = False,
) -> list[Data]:
    """Generate ``count`` graphs.

    A :class:`gln.GraphFlow` samples them. What has a method ``sample(count, seed)``, as baselines have, does so in its
    own way. Any other model predicts them from normal noise with the shape and scale of the training features, as the
    paper does.

    Args:
        model: a trained model, or anything with a method ``sample(count, seed)``.
        count: number of graphs; except for a flow, the first graphs of a seed do not depend on it.
        seed: the same seed gives the same noise.
        like: graphs whose sizes and features the noise imitates; default: those the model was trained on, whose
            statistics are stored with it.
        threshold, steps, batch_size: as in :func:`gln.predict`.
        sampling_steps, stochasticity: of a flow, as in :meth:`gln.GraphFlow.sample`; default: those of the model.
        progress: show a progress bar for a flow.
    """
    choice = Choice(threshold, steps=steps, batch_size=batch_size)
    how = Sampling(sampling_steps, stochasticity)
    made = generate_graphs(model, count, seed, like, choice, how, progress)
    return [graph.to_data() for graph in made]


def generate_graphs(
    model: Method,
    count: int,
    seed: int = 0,
    like: Sequence[Any] | None = None,
    choice: Choice = AS_TRAINED,
    how: Sampling = AS_SET,
    progress: bool = False,
    keep: int = 0,
) -> list[Graph]:
    """As :func:`generate`; ``keep`` as in :meth:`gln.GraphFlow.sample`."""
    count, seed = check_whole("generate", "count", count, 1), check_seed("generate", seed)
    if isinstance(model, Generates):
        nodes = None if like is None else as_graphs(like, "like")
        return model.sampled(count, seed, nodes, how, progress=progress, keep=keep)
    if how != AS_SET:
        raise GLNError(f"{type(model).__name__} is not a flow; leave out sampling_steps and stochasticity.")
    if not isinstance(model, nn.Module):
        if not isinstance(model, CanSample):
            raise GLNError(
                f"Got a {type(model).__name__}; expected a model or an object with sample(count, seed)."
            )
        return model.draw(count, seed) if hasattr(model, "draw") else as_graphs(model.sample(count, seed))
    remembered = (getattr(model, "training_facts", None) or {}).get("noise")
    noise = remembered if like is None else feature_noise(as_graphs(like, "like"))
    if noise is None:
        raise GLNError(
            "The model does not store which features it was trained on; give like= graphs of the same kind."
        )
    _check_noise(noise)
    points = [noise_points(noise, np.random.default_rng([GENERATE, seed, number])) for number in range(count)]
    return predict_graphs(model, points, choice)


def _check_noise(noise: dict[str, Any]) -> None:
    """Refuse statistics from a stranger's model that no graphs have."""
    sizes = [len(pair) == 2 and 1 <= pair[0] <= MOST_NODES and pair[1] >= 1 for pair in noise["sizes"]]
    spreads = [noise[name] for name in ROWS if name in noise]
    for spread in spreads:
        sizes.append(len(spread["mean"]) == len(spread["std"]) and min(spread["std"], default=0) >= 0)
    if not noise["sizes"] or not spreads or not all(sizes):
        raise GLNError(
            "The model remembers features that no graphs have; give like= graphs of the same kind."
        )


def noise_points(noise: dict[str, Any], rng: np.random.Generator) -> Graph:
    """One set of nodes with normal features, from the statistics of :func:`gln.graphs.features.feature_noise`."""
    sizes, counts = np.array(noise["sizes"]).T
    size = int(rng.choice(sizes, p=counts / counts.sum()))
    rows = {}
    for name in ROWS:
        if name in noise:
            mean, std = noise[name]["mean"], noise[name]["std"]
            rows[name] = torch.from_numpy(rng.normal(mean, std, (size, len(mean)))).float()
    return Graph(**rows, num_nodes=size)

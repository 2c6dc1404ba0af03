"""Communities found in predicted graphs, against k-means on the same positions, on the LFR benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from tyro.conf import Suppress

from benchmarks.common import device_name, peer, threads, timed, weights_of
from gln.adapters.pyg import make_graph
from gln.decoding.clusters import choose_cut, clusters
from gln.errors import GLNError
from gln.evaluation import adjusted_rand
from gln.inference.predict import predict
from gln.models import GLN
from gln.seeds import TEST_SEED
from gln.training import fit
from gln.training.data import RandomRotation
from gln.training.losses import Loss

TRAIN_SEED, VAL_SEED = 1, 2
MIXING = (0.1, 0.2, 0.3)  # share of a node's edges that leave its community, as the generator is told
AXES = 8  # of a spectral position


@dataclass(frozen=True)
class Size:
    """The graphs and the model."""

    nodes: int = 250
    train: int = 150
    val: int = 15
    epochs: int = 4
    # networkx's names; the sizes of communities need both bounds, or it may draw for ever
    lfr: dict[str, int] = field(
        default_factory=lambda: {"max_degree": 50, "min_community": 20, "max_community": 60}
    )
    model: dict[str, Any] = field(default_factory=lambda: {"width": 32, "pair_width": 16, "steps": 2})


def run(
    size: Annotated[Size, Suppress] = Size(),  # noqa: B008 - frozen
    degree: int = 15,
    seed: int = 0,
    tests: int = 60,
) -> dict[str, Any]:
    """The adjusted Rand index of communities over 250 nodes, whose positions come from the spectrum of the true graph.

    A model learns the edges from the positions, on one thread of a CPU. Its clusters know neither the edges nor the
    number of communities; k-means is told that number. Louvain on the true edges is what the graph itself reveals.

    Args:
        size: the graphs and the model.
        degree: the average degree of a graph.
        seed: of weights and batches.
        tests: number of test graphs.
    """
    if tests < len(MIXING):
        raise GLNError(f"Got tests={tests}; expected at least {len(MIXING)}, one for each mixing.")
    kmeans = peer("sklearn.cluster", "KMeans")
    train, val, held_out = (
        [draw(size, degree, number, seed) for number in range(count)]
        for count, seed in ((size.train, TRAIN_SEED), (size.val, VAL_SEED), (tests, TEST_SEED))
    )
    with threads(1), torch.random.fork_rng():
        torch.manual_seed(seed)
        model = GLN(pos_channels=AXES, **size.model)
        settings: dict[str, Any] = {"epochs": size.epochs, "batch_size": 5, "lr": 2e-3, "seed": seed}
        loss = Loss(edge="plain", every_step=True)
        _, seconds = timed(
            lambda: fit(
                model,
                train,
                val,
                loss=loss,
                augment=RandomRotation(),
                accelerator="cpu",
                progress=False,
                **settings,
            )
        )
        cut = choose_cut(val, predict(model, val, threshold=0.0))
        likely, scored = predict(model, held_out), predict(model, held_out, threshold=0.0)
    ways: dict[str, Callable[[int], Tensor]] = {
        "clusters, of all scored pairs": lambda i: clusters(scored[i]),
        "clusters, of the predicted edges": lambda i: clusters(likely[i]),
        f"components, cut {cut} chosen on validation": lambda i: clusters(scored[i], "components", cut=cut),
        "components, of the predicted edges": lambda i: clusters(likely[i], "components"),
        "k-means, told the number": lambda i: _kmeans(kmeans, held_out[i]),
        "Louvain on the true edges": lambda i: clusters(held_out[i], "louvain"),
    }
    rows = [{"communities": name} | _agreement(way, held_out) for name, way in ways.items()]
    settings |= {"nodes": size.nodes, "average_degree": degree, **size.lfr, "axes": AXES, "tests": tests}
    settings |= {"training_graphs": size.train, "weights": weights_of(model), "device": device_name()}
    return {"name": "communities", "rows": rows, "training_seconds": seconds, "settings": settings}


def _agreement(way: Callable[[int], Tensor], graphs: list[Data]) -> dict[str, float]:
    """The mean adjusted Rand index with the communities, for every mixing and over all graphs."""
    found = adjusted_rand([graph.community for graph in graphs], [way(i) for i in range(len(graphs))])
    by_mixing = {
        f"mixing_{mixing}": float(found[number :: len(MIXING)].mean()) for number, mixing in enumerate(MIXING)
    }
    return by_mixing | {"all": float(found.mean())}


def _kmeans(kmeans: Callable[..., Any], graph: Data) -> Tensor:
    count = len(graph.community.unique())
    return torch.from_numpy(kmeans(count, n_init=10, random_state=0).fit_predict(graph.pos.numpy())).long()


def draw(size: Size, degree: int, number: int, seed: int) -> Data:
    """A connected LFR graph with its communities; the mixings take turns.

    A position holds the node's values in the first non-constant eigenvectors of the random walk on the graph.
    """
    mixing, rng = MIXING[number % len(MIXING)], np.random.default_rng([seed, number])
    while True:
        try:
            graph = nx.LFR_benchmark_graph(
                size.nodes,
                3,
                1.5,
                mixing,
                average_degree=degree,
                max_iters=500,
                seed=int(rng.integers(2**31)),
                **size.lfr,
            )
        except nx.ExceededMaxIterations:  # no such degrees or sizes were drawn
            continue
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        if nx.is_connected(graph):
            break
    root = np.sqrt([graph.degree[node] for node in range(size.nodes)])
    adjacency = nx.to_numpy_array(graph, nodelist=range(size.nodes))
    vectors = np.linalg.eigh(np.eye(size.nodes) - adjacency / np.outer(root, root))[1]
    made = make_graph(pos=vectors[:, 1 : AXES + 1] / root[:, None], edges=np.array(graph.edges))
    made.community = torch.tensor([min(graph.nodes[node]["community"]) for node in range(size.nodes)])
    return made

"""Kronecker graphs and blockmodels: do they find what was planted, and how well do they imitate community graphs?

    python recipes/blockmodels.py                      # all runs, about seven minutes on one core
    python recipes/blockmodels.py mmsb-blocks          # one run

Each writes ``results/baseline-….json``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from tyro.conf import Positional

import gln
from gln.baselines import MMSB, Kronecker, baseline
from gln.baselines.kronecker import draw_edges
from gln.families import parse_family
from gln.storage.provenance import check_source, write_result
from shared import RESULTS, paper_count, run_command

SEED = 0
PLANTED = 1  # seed of the planted graphs
GRAPHS = 5  # planted graphs of each kind
SAMPLES = 100
FAMILY = "community:communities=4"
INITIATORS = ((0.99, 0.55, 0.35), (0.9, 0.6, 0.3))  # a, b, c of [[a, b], [b, c]]
LEVELS = 10
BLOCKMODELS = (
    # the sizes of the blocks, the probability of an edge inside one and between two
    ([30, 30, 30, 30], 0.5, 0.05),
    ([40, 30, 20, 10], 0.5, 0.05),
    ([30, 30, 30, 30], 0.05, 0.4),
)


def recover_initiator() -> dict[str, Any]:
    """Kronecker graphs of 2¹⁰ shuffled nodes: how far the fitted initiator is from the planted one."""
    planted = []
    for initiator in INITIATORS:
        found, seconds = [], []
        for seed in range(GRAPHS):
            rng = np.random.default_rng([PLANTED, seed])
            edges = rng.permutation(2**LEVELS)[draw_edges(np.array(initiator), LEVELS, rng)]
            graph = gln.make_graph(edges=edges, num_nodes=2**LEVELS)
            begun = time.perf_counter()
            found.append(Kronecker().fit([graph], seed=SEED).initiator_[0].numpy())
            seconds.append(time.perf_counter() - begun)
        error = np.abs(np.array(found) - initiator)  # [GRAPHS, 3]
        planted.append(
            {
                "initiator": initiator,
                "found": np.round(found, 4).tolist(),
                "median_error": np.median(error, axis=0).round(4).tolist(),
                "largest_error": error.max(axis=0).round(4).tolist(),
                "seconds_each": round(float(np.mean(seconds)), 2),
            }
        )
    return {"nodes": 2**LEVELS, "graphs": GRAPHS, "planted": planted}


def recover_blocks() -> dict[str, Any]:
    """Blockmodels with shuffled nodes: do the likeliest roles of the nodes agree with their blocks?"""
    from sklearn.metrics import adjusted_rand_score

    planted = []
    for sizes, inside, between in BLOCKMODELS:
        chosen, given, roles = [], [], []
        for seed in range(GRAPHS):
            rng = np.random.default_rng([PLANTED, seed])
            block = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
            chance = np.where(block[:, None] == block, inside, between)
            edges = np.argwhere(np.triu(rng.random(chance.shape) < chance, 1))
            graph = gln.make_graph(edges=edges, num_nodes=len(block))
            for model, agreement in ((MMSB(), chosen), (MMSB(roles=len(sizes)), given)):
                found = model.fit([graph], seed=SEED).memberships_.argmax(dim=1).numpy()
                agreement.append(round(adjusted_rand_score(block, found), 4))
                roles.append(model.blocks_.shape[-1])
        planted.append(
            {
                "sizes": sizes,
                "inside": inside,
                "between": between,
                "adjusted_rand": chosen,
                "median_adjusted_rand": float(np.median(chosen)),
                "roles_chosen": roles[::2],
                "adjusted_rand_with_the_true_number_of_roles": given,
            }
        )
    return {"graphs": GRAPHS, "planted": planted}


def imitate(spec: str) -> dict[str, Any]:
    """Fit to the training graphs of the family, sample, and compare with its test graphs."""
    family = parse_family(FAMILY)
    train, val, test = gln.split(family.sample(paper_count(FAMILY), SEED), SEED)
    train = train + val  # neither method chooses anything on validation graphs
    model = baseline(spec)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    model.fit(train, seed=SEED)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - begun_cpu
    begun = time.perf_counter()
    drawn = gln.generate(model, SAMPLES, SEED)
    sampling = time.perf_counter() - begun
    distance = gln.mmd(test, drawn, floor=train)
    learned = {
        name: values[:3].numpy().round(4).tolist()
        for name, values in model.state().items()
        if name in ("initiator", "alpha", "blocks")
    }
    return {
        "baseline": str(model),
        "settings": model.settings(),
        "fitted": model.fitted,
        "family": FAMILY,
        "graphs": {"train": len(train), "test": len(test), "sampled": len(drawn)},
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "sampling_seconds": round(sampling, 2),
        "learned_of_the_first_graphs": learned,
        "held_out_log_likelihood": getattr(model, "held_out_", None),
        "mean_edges": {name: _mean_edges(part) for name, part in (("test", test), ("sampled", drawn))},
        "mmd": dict(distance),
        "mmd_floor": dict(distance.floor),
        "mmd_how": distance.summary,
    }


def _mean_edges(graphs: list) -> float:
    return round(float(np.mean([graph.num_edges / 2 for graph in graphs])), 1)


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "kronecker-initiator": recover_initiator,
    "kronecker-community-4": partial(imitate, "kronecker"),
    "kronecker-community-4-per-graph": partial(imitate, "kronecker:per=graph"),
    "mmsb-blocks": recover_blocks,
    "mmsb-community-4": partial(imitate, "mmsb"),
    "mmsb-community-4-pool": partial(imitate, "mmsb:per=pool"),
    "mmsb-community-4-drawn": partial(imitate, "mmsb:memberships=drawn"),
}


Name = Literal[tuple(RUNS)]  # type: ignore[valid-type]


def blockmodels(names: Positional[tuple[Name, ...]] = tuple(RUNS)) -> None:
    """Make the named runs, or all."""
    check_source(RESULTS)
    for name in names:
        begun = time.perf_counter()
        measured = RUNS[name]()
        measured = {"seconds": round(time.perf_counter() - begun, 1)} | measured
        write_result(
            RESULTS / f"baseline-{name}.json", f"python recipes/blockmodels.py {name}", SEED, measured
        )
        print(
            name, {key: measured[key] for key in ("seconds", "mmd", "planted") if key in measured}, flush=True
        )


if __name__ == "__main__":
    run_command(__doc__, blockmodels)

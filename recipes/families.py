"""Train and test GLN on the paper's families.

    python recipes/families.py train surfaces --run runs/surfaces          # a shipped model, minutes on one GPU
    python recipes/families.py test surfaces --run runs/surfaces --output results/surfaces.json

One model serves all sizes and kinds of its family. Test graphs come from a seed that neither training nor tuning uses,
as many of each as the paper has. Repeat the command to resume training. Models on ordered nodes are trained by
``python -m reproduction table-scores``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from tyro.conf import Positional

import gln
from gln.decoding.clusters import CUTS, choose_cut
from gln.evaluation import adjusted_rand, segmentation_scores
from gln.families import parse_family
from gln.families.surfaces import KINDS
from gln.graphs.record import Graph
from gln.graphs.split import cut_patches
from gln.inference.predict import AS_TRAINED
from gln.storage.provenance import check_source, write_result
from gln.training.losses import Loss
from shared import (
    TEST_SEED,
    TRAIN_SEED,
    USUAL_LOSS,
    VAL_SEED,
    begin,
    check_training_seed,
    command,
    fit,
    load_on_device,
    predict_and_score,
    run_command,
)


@dataclass(frozen=True)
class Recipe:
    """What a model is trained on, and how."""

    train: dict[str, int]  # graphs of each member of the family; for those in `patches`, patches
    val: int  # validation graphs of each
    test: list[str]
    model: dict[str, Any]
    fit: dict[str, Any]
    patches: dict[str, tuple[int, int]] = field(default_factory=dict)  # nodes per patch, patches per graph
    segments: bool = False  # choose the threshold that segments best, not the one with the best IoU


Name = Literal["community", "surfaces", "figures"]
RECIPES = {
    "community": Recipe(
        train={"community": 12_000, "community:communities=4": 12_000},
        val=300,
        test=["community", "community:communities=4"],
        model={"pos_channels": 2},
        fit={"epochs": 5, "batch_size": 32},
    ),
    "surfaces": Recipe(
        train={"surfaces": 20_000, "surfaces:points=400": 20_000},
        val=240,
        test=["surfaces", "surfaces:points=400"],
        model={"pos_channels": 3, "candidates": 96, "steps": 8},
        fit={
            "epochs": 8,
            "batch_size": 32,
            "loss": Loss(**USUAL_LOSS | {"psi1": 0}),
        },  # the structure loss alone
        # A node of a large set sees only its nearest ones, so a patch of them holds all there is to learn from.
        patches={"surfaces:points=400": (100, 4)},
    ),
    "figures": Recipe(
        train={"figures": 6_000, "figures:objects=2": 1_000, "figures:side=12": 1_000},
        val=200,
        test=["figures", "figures:side=12", "figures:objects=3"],
        model={
            "in_channels": 3,
            "pos_channels": 2,
            "width": 64,
            "pair_width": 32,
            "steps": 4,
            "candidates": 12,
        },
        fit={"epochs": 10, "batch_size": 16},
        segments=True,
    ),
}


def train(
    name: Positional[Name], run: Path, epochs: int | None = None, workers: int = 4, seed: int = TRAIN_SEED
) -> None:
    """Train the model of a family; the seed is that of the weights and graphs."""
    check_training_seed(seed)
    begin(seed)
    recipe = RECIPES[name]
    graphs = [g for spec, n in recipe.train.items() for g in pieces(recipe, spec, n, seed, workers)]
    val = [g for spec in recipe.train for g in pieces(recipe, spec, recipe.val, VAL_SEED, workers)]
    settings = recipe.fit | ({} if epochs is None else {"epochs": epochs})
    network = gln.GLN(**recipe.model)
    start = time.perf_counter()
    result = fit(network, graphs, val, run, num_workers=workers, seed=seed - TRAIN_SEED, **settings)
    print(f"{name}: {result}; {(time.perf_counter() - start) / 60:.1f} minutes")
    if recipe.segments:
        # One wrong edge joins two regions, which the IoU of edges hardly notices.
        true = [graph.with_edges(graph.edge_index) for graph in val]  # their components are to be found
        network.threshold = choose_cut(true, gln.predict(network, val, threshold=min(CUTS)))
        gln.save(network, run)
        print(f"{name}: threshold {network.threshold}")


def test(
    name: Positional[Name], run: Path, output: Path, only: tuple[str, ...] = (), count: int | None = None
) -> None:
    """Test a model on all members of its family or ``only`` some, by default on the paper's number of graphs."""
    check_source(output)
    model = load_on_device(run)
    rows = []
    for spec in only or RECIPES[name].test:
        graphs = draw(spec, count or parse_family(spec).paper_count or 300, TEST_SEED, 1)
        start = time.perf_counter()
        row = {"graphs_of": spec, "graphs": len(graphs), "seed": TEST_SEED, **score(model, graphs)}
        row["seconds"] = round(time.perf_counter() - start, 2)
        rows.append(row)
        print(
            {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()},
            flush=True,
        )
    measured = {"order": "set", "model": model.config, "training": model.training_facts, "rows": rows}
    write_result(output, command(), TEST_SEED, measured)


def score(model: torch.nn.Module, graphs: list[Graph]) -> dict[str, float]:
    """Edge scores, MMD and candidate recall; for surfaces the IoU of every kind, for images the segmentation scores."""
    predicted, scores, recall = predict_and_score(model, graphs, AS_TRAINED)
    scores |= {"candidate_recall": recall}
    scores |= gln.mmd(graphs, predicted).named()
    for number, kind in enumerate(KINDS):
        of = [i for i, graph in enumerate(graphs) if graph.get("kind") == number]
        if of:
            part = gln.edge_scores([graphs[i] for i in of], [predicted[i] for i in of])
            scores[f"iou_{kind}"] = part["iou"]
    if graphs[0].get("region") is not None:
        scores |= segmentation_scores(graphs, predicted)
        regions, found = (
            [graph.region for graph in graphs],
            [gln.clusters(graph, "linkage") for graph in predicted],
        )
        scores["ari_regions_linkage"] = float(adjusted_rand(regions, found).mean())
    return scores


def pieces(recipe: Recipe, spec: str, count: int, seed: int, workers: int) -> list[Graph]:
    """Graphs, or patches of graphs, to train on."""
    if spec not in recipe.patches:
        return draw(spec, count, seed, workers)
    size, each = recipe.patches[spec]
    graphs = draw(spec, count // each, seed, workers)
    return [
        patch
        for number, graph in enumerate(graphs)
        for patch in cut_patches(graph, size, each, [seed, number])
    ]


def draw(spec: str, count: int, seed: int, workers: int) -> list[Graph]:
    return parse_family(spec).graphs(count, seed, workers=max(workers, 1))


if __name__ == "__main__":
    run_command(__doc__, train, test)

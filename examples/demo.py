"""The program behind ``make demo``: train a small model from scratch, then run a shipped one on unseen surfaces."""

from __future__ import annotations

import time
from pathlib import Path

import torch

import gln
from gln.evaluation.metrics import Scores
from gln.families.surfaces import KINDS
from gln.seeds import TEST_SEED

IMAGES, HELD_OUT, SURFACES = 240, 60, 24
TRAIN_SEED = 0


def main(folder: Path = Path("demo")) -> None:
    """Print two tables and save two pictures in ``folder``."""
    # The tensors are small: more threads gain little, and cost much on a busy machine.
    torch.set_num_threads(1)
    start = time.perf_counter()
    print(f"1. A small GLN learns from scratch, on {IMAGES} images, to join the pixels of each region.\n")
    learn_figures(folder)
    print(
        "\n2. The surfaces model that ships with the package predicts meshes over 3-D points it has never seen.\n"
    )
    predict_surfaces(folder)
    print(
        f"\nDone in {time.perf_counter() - start:.0f} s. See {folder}/figures.png and {folder}/surfaces.png."
    )


def learn_figures(folder: Path, images: int = IMAGES, held_out: int = HELD_OUT, epochs: int = 4) -> Scores:
    """Train on noisy 20×20 images, then score and draw unseen ones."""
    family = gln.family("figures")
    train, val = family.sample(images, TRAIN_SEED), family.sample(30, TRAIN_SEED + 1)
    test = family.sample(held_out, TEST_SEED)
    torch.manual_seed(TRAIN_SEED)
    # Edges join a pixel only to the four beside it, so a few candidates are enough, and fast.
    model = gln.GLN(in_channels=3, pos_channels=2, width=32, pair_width=16, steps=3, candidates=4)
    loss = gln.Loss(edge="plain", psi1=5, every_step=True)
    start = time.perf_counter()
    result = gln.fit(model, train, val, epochs=epochs, batch_size=4, lr=5e-3, loss=loss)
    print(f"Trained for {time.perf_counter() - start:.0f} s; {result}.\nOn {held_out} unseen images:\n")
    scores = gln.evaluate(model, test)
    print(scores)
    title = "Regions found by a small GLN in unseen images"
    gln.save_gallery(gln.predict(model, test[:6]), folder / "figures.png", title, truths=test[:6])
    return scores


def predict_surfaces(folder: Path, count: int = SURFACES) -> Scores:
    """The shipped model on unseen surfaces of all six kinds."""
    family = gln.family("surfaces")
    truths = family.sample(count, TEST_SEED)
    model = gln.load("surfaces")
    scores = gln.evaluate(model, truths)
    print(scores)
    captions = [KINDS[int(graph.kind)] for graph in truths[:6]]
    title = "Meshes predicted from points alone"
    predicted = gln.predict(model, truths[:6])
    gln.save_gallery(predicted, folder / "surfaces.png", title, captions, truths[:6])
    return scores


if __name__ == "__main__":
    main()

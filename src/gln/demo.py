"""What ``make demo`` runs: learn a family from scratch, then let a trained model see surfaces it has not met."""

from __future__ import annotations

import time
from pathlib import Path

import torch

import gln
from gln.evaluation.metrics import Scores
from gln.families.surfaces import KINDS

IMAGES, HELD_OUT, SURFACES = 240, 60, 24
TRAIN_SEED, TEST_SEED = 0, 1_000_003


def main(folder: Path = Path("demo")) -> None:
    """Two tables on the terminal and two pictures in ``folder``."""
    # The tensors are small: more threads gain little, and lose much on a busy machine.
    torch.set_num_threads(1)
    start = time.perf_counter()
    print(f"1. A small GLN learns to join the pixels of one region, from {IMAGES} images and from scratch.\n")
    learn_figures(folder)
    print("\n2. The surfaces model, which comes with the package, joins 3-D points it has never seen.\n")
    predict_surfaces(folder)
    print(
        f"\nAll in {time.perf_counter() - start:.0f} s. Look at {folder}/figures.png and {folder}/surfaces.png."
    )


def learn_figures(folder: Path, images: int = IMAGES, held_out: int = HELD_OUT, epochs: int = 4) -> Scores:
    """Train on noisy 20×20 images, score and draw others."""
    family = gln.family("figures")
    train, val = family.sample(images, TRAIN_SEED), family.sample(30, TRAIN_SEED + 1)
    test = family.sample(held_out, TEST_SEED)
    torch.manual_seed(TRAIN_SEED)
    # An edge joins a pixel to one of the four beside it: few candidates are enough, and fast.
    model = gln.GLN(in_channels=3, pos_channels=2, width=32, pair_width=16, steps=3, candidates=4)
    loss = gln.Loss(edge="plain", psi1=5, every_step=True)
    start = time.perf_counter()
    result = gln.fit(model, train, val, epochs=epochs, batch_size=4, lr=5e-3, loss=loss)
    print(f"Trained {time.perf_counter() - start:.0f} s; {result}.\n{held_out} images it has not seen:\n")
    scores = gln.evaluate(model, test)
    print(scores)
    title = "Regions that a small GLN found in images it has not seen"
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

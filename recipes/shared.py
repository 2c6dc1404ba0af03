"""What the recipes share: seeds, the usual way to train, and their command lines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import tyro
from torch import Tensor, nn

import gln
from gln.errors import GLNError
from gln.evaluation import EdgeScores
from gln.inference.evaluate import predict_and_rank
from gln.inference.predict import Choice, outputs
from gln.models import StructureOutput
from gln.seeds import TEST_SEED
from gln.training.data import RandomRotation
from gln.training.losses import Loss

TRAIN_SEED, VAL_SEED = 1, 2  # of graphs
RESULTS = Path("results")
USUAL_LOSS: dict[str, Any] = {"edge": "plain", "psi1": 5, "every_step": True}
USUAL_FIT: dict[str, Any] = {"lr": 1e-3, "warmup": 0.02, "weight_decay": 1e-4, "progress": False}


def run_command(doc: str | None, *commands: Callable[..., None]) -> None:
    """Run the function, or that of several, that the command line names; its parameters are the flags."""
    try:
        if len(commands) == 1:
            tyro.cli(commands[0], description=doc)
        else:
            named = {command.__name__.replace("_", "-"): command for command in commands}
            tyro.extras.subcommand_cli_from_dict(named, description=doc)
    except GLNError as error:
        sys.exit(str(error))


def command() -> str:
    """The command that is running."""
    return shlex.join(["python", *sys.argv])


def begin(seed: int) -> None:
    """Matrix products and random weights as in every training here."""
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(seed)


def fit(model: nn.Module, train: list, val: list, run: Path, **settings: Any) -> Any:
    """Train as usual, except for ``settings``; the same command again resumes."""
    usual = USUAL_FIT | {"loss": Loss(**USUAL_LOSS), "augment": RandomRotation()}
    return gln.fit(model, train, val, run=run, resume=True, **usual | settings)


def predict_and_score(model: nn.Module, true: list, choice: Choice) -> tuple[list, dict[str, float], float]:
    """The predicted graphs, their edge scores, and the candidate recall: the share of true edges that were scored."""
    predicted, ranked, recall = predict_and_rank(model, true, true, choice)
    return predicted, dict(gln.edge_scores(true, predicted)) | {"average_precision": fmean(ranked)}, recall


def check_training_seed(seed: int) -> None:
    """Refuse a seed whose graphs are used for validation or testing."""
    if seed in (VAL_SEED, TEST_SEED):
        raise GLNError(f"Got seed={seed}, which draws the validation or test graphs; choose another.")


def load_on_device(run: Path) -> nn.Module:
    return gln.load(run).to("cuda" if torch.cuda.is_available() else "cpu")


def score_all_entries(
    model: nn.Module,
    graphs: list,
    threshold: float,
    batch_size: int,
    soft: Callable[[StructureOutput], Tensor] = StructureOutput.soft_adjacency,
) -> dict[str, float]:
    """Edge scores over all n² entries, diagonal included, and the candidate recall; means over graphs."""
    scores, recalls = EdgeScores(threshold, entries="all"), []
    for numbers, _, output in outputs(model, graphs, Choice(batch_size=batch_size)):
        size = output.mask.shape[1]  # on a GPU, batches are padded to few sizes
        batch = gln.GraphBatch.from_graphs([graphs[i] for i in numbers], nodes=size).to(output.mask.device)
        scores.to(output.mask.device).update(soft(output), batch.adj, batch.mask)
        recalls.append(output.recall(batch.adj).cpu())
    found = {name: float(value) for name, value in scores.compute().items()}
    return found | {"candidate_recall": float(torch.cat(recalls).mean())}

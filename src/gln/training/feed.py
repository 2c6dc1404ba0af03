"""The data loaders of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytorch_lightning import Trainer
from torch.utils.data import DataLoader
from torch_geometric.data import Data

from gln.graphs import as_graphs
from gln.training.checkpoint import Progress
from gln.training.config import FitConfig
from gln.training.data import Augment, Share, Shares, Source, feature_noise, global_batches


@dataclass
class Feed:
    """Makes the data loaders of this process; arguments as in :func:`gln.fit`, with checked graphs."""

    train: Source
    val: Sequence[Data]
    augment: Augment | None
    config: FitConfig
    batches: int = 0  # in the current epoch

    def train_loader(self, progress: Progress, trainer: Trainer) -> DataLoader[Share]:
        """The rest of the current epoch."""
        graphs = self._graphs(progress.epoch)
        if progress.noise is None:
            progress.noise = feature_noise(graphs)
        seed = self.config.seed
        nodes = [graph.num_nodes for graph in graphs]
        batches = global_batches(nodes, self.config.batch_size, seed, progress.epoch)
        self.batches = len(batches)
        noise = {"augment": self.augment, "seed": seed, "epoch": progress.epoch}
        return self._loader(graphs, batches[progress.batch :], trainer, **noise)

    def val_loader(self, trainer: Trainer) -> DataLoader[Share]:
        """All validation graphs."""
        batches = global_batches([graph.num_nodes for graph in self.val], self.config.batch_size)
        return self._loader(self.val, batches, trainer)

    def _graphs(self, epoch: int) -> Sequence[Data]:
        if not callable(self.train):
            return self.train
        graphs = self.train(epoch)
        # Checking takes about as long as generating, so only the first graphs that a function makes are checked.
        return graphs if self.batches else as_graphs(graphs, f"train({epoch})")

    def _loader(
        self, graphs: Sequence[Data], batches: Sequence[np.ndarray], trainer: Trainer, **noise: Any
    ) -> DataLoader[Share]:
        shares = Shares(graphs, batches, trainer.global_rank, trainer.world_size, **noise)
        on_gpu = trainer.strategy.root_device.type == "cuda"
        return DataLoader(shares, batch_size=None, num_workers=self.config.num_workers, pin_memory=on_gpu)

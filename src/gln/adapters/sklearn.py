"""GLN as a scikit-learn estimator: sets of points in, sets of edges out."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import scipy.sparse as sp

from gln.errors import GLNError
from gln.evaluation.edges import edge_scores
from gln.files import check_format
from gln.graphs import to_scipy
from gln.graphs.check import as_record, make_graph
from gln.graphs.features import feature_scale
from gln.graphs.record import Graph, is_data
from gln.inference.predict import Choice, predict_graphs
from gln.models.gln import GLN
from gln.seeds import seeded
from gln.storage.facts import Facts, accepted, as_kind, naming_misfits
from gln.storage.models import Training, annotate, build_for, check_threshold
from gln.storage.tensors import load_weights, read_tensors, write_tensors
from gln.training.config import FitConfig
from gln.training.loop import fit
from gln.training.losses import Edge, Loss

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise GLNError(
        "GraphLearner needs scikit-learn, which is not installed; run pip install 'gln[sklearn]'."
    ) from None

FORMAT = "gln learner 1"

Sets = Sequence[Any]


class LearnerFacts(TypedDict):
    """What :meth:`GraphLearner.save` writes beside the weights."""

    settings: Facts
    model: Facts
    threshold: float
    training: Training | None
    history: list[Facts]


class GraphLearner(BaseEstimator):
    """Learns which points of a set are joined, from sets whose edges are known.

    A set of points is an array ``[n, p]`` of positions, a pair ``(positions [n, p], features [n, f])`` in which either
    may be ``None``, or a PyG ``Data``. Its edges are pairs ``[m, 2]`` of row numbers, each edge once. Sets may differ
    in size. ``GridSearchCV`` and ``cross_val_score`` can split lists of sets: one set is one sample.

    Args:
        width: width of the node states of :class:`gln.GLN`.
        pair_width: width of its pair states.
        steps: number of steps that refine the structure.
        candidates: in large sets, how many nearest nodes each node is paired with.
        epochs: passes over the training sets.
        batch_size: sets per optimiser step.
        learning_rate: peak of the learning-rate schedule.
        edge_loss: how edges and non-edges are weighted (see :mod:`gln.training.losses`).
        validation_fraction: share of the sets on which the best epoch and the threshold are chosen.
        patience: stop after this many epochs without improvement; ``None``: never.
        threshold: a pair with at least this probability is an edge; ``None``: chosen on the validation sets.
        standardize: scale every feature to mean 0 and deviation 1, except columns of zeros and ones (positions need no
            scaling: GLN ignores their unit).
        device: ``auto``, ``cpu`` or ``gpu``.
        random_state: seeds the initial weights, the choice of validation sets and the training order.
        verbose: show a progress bar.

    After :meth:`fit`:

    ==================  ==================================================================
    ``model_``          the trained :class:`gln.GLN`
    ``threshold_``      a pair with at least this probability is an edge
    ``history_``        one row per epoch, as in :class:`gln.training.FitResult`
    ``n_features_in_``  positions and features per node
    ==================  ==================================================================
    """

    def __init__(
        self,
        *,
        width: int = 32,
        pair_width: int = 32,
        steps: int = 3,
        candidates: int = 32,
        epochs: int = 50,
        batch_size: int = 20,
        learning_rate: float = 1e-3,
        edge_loss: Edge = "plain",
        validation_fraction: float = 0.1,
        patience: int | None = None,
        threshold: float | None = None,
        standardize: bool = True,
        device: Literal["auto", "cpu", "gpu"] = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.width = width
        self.pair_width = pair_width
        self.steps = steps
        self.candidates = candidates
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.edge_loss = edge_loss
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.threshold = threshold
        self.standardize = standardize
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Sets, y: Sets) -> GraphLearner:
        """Learn from point sets ``X`` and their edges ``y``, one table ``[m, 2]`` for each."""
        graphs = _with_edges(X, y)
        if len(graphs) < 2:
            raise GLNError(f"Got {len(graphs)} point set; expected at least 2, one of them to validate on.")
        if not isinstance(self.validation_fraction, Real) or not 0 < self.validation_fraction < 1:
            raise GLNError(
                f"Got validation_fraction={self.validation_fraction!r}; expected a share between 0 and 1."
            )
        given = self._plain_params()
        Choice(given["threshold"])  # the batch size is checked below
        settings = FitConfig(
            epochs=given["epochs"],
            batch_size=given["batch_size"],
            lr=given["learning_rate"],
            patience=given["patience"],
            accelerator=self.device,
            progress=given["verbose"],
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        loss = Loss(edge=self.edge_loss, every_step=True)
        order = np.random.default_rng(settings.seed).permutation(len(graphs))
        held_out = min(max(round(self.validation_fraction * len(graphs)), 1), len(graphs) - 1)
        val, train = ([graphs[i] for i in part] for part in np.split(order, [held_out]))
        with seeded(settings.seed):
            model = GLN(**self._shape(train))
        result = fit(model, train, val, loss=loss, config=settings)
        if self.threshold is not None:
            model.threshold = float(self.threshold)
        self._keep(model, result.history)
        return self

    def predict(self, X: Sets) -> list[np.ndarray]:
        """The edges of every set: pairs ``[m, 2]`` of row numbers, ``i < j``, sorted."""
        check_is_fitted(self)
        return [graph.edges_once() for graph in self._answers(X, self.threshold_)]

    def predict_proba(self, X: Sets) -> list[sp.csr_array]:
        """The probabilities of all scored pairs: one symmetric sparse matrix ``[n, n]`` per set.

        In a small set all pairs are scored, in a large one those of near nodes; all other entries are 0.
        ``matrix.toarray()`` is the dense form.
        """
        check_is_fitted(self)
        matrices = []
        for graph in self._answers(X, 0.0):
            matrix = to_scipy(graph).astype(np.float32)  # in the order of the sorted edges
            matrix.data[:] = graph.edge_prob.numpy()
            matrices.append(matrix)
        return matrices

    def score(self, X: Sets, y: Sets) -> float:
        """Mean F1 of the predicted edges over the sets."""
        check_is_fitted(self)
        return float(edge_scores(_with_edges(X, y), self._answers(X, self.threshold_))["dice"])

    def save(self, path: Path | str) -> Path:
        """Save the fitted learner as one safetensors file; loading it never runs code."""
        check_is_fitted(self)
        settings = self._plain_params()
        # A generator is not a plain value; its seed has been drawn.
        if not isinstance(settings["random_state"], int | None):
            settings["random_state"] = None
        facts = {
            "format": FORMAT,
            "settings": settings,
            "model": self.model_.config,
            "threshold": self.threshold_,
            "training": self.model_.training_facts,
            "history": self.history_,
        }
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, self.model_.state_dict(), facts)
        return path

    @classmethod
    def load(cls, path: Path | str) -> GraphLearner:
        """Load a learner that :meth:`save` wrote."""
        path = Path(path)
        tensors, found = read_tensors(path)
        check_format(found.get("format"), FORMAT, path, "a file that GraphLearner.save wrote")
        facts = as_kind(found, LearnerFacts, path)
        with naming_misfits(path):
            learner = cls(**accepted(cls, facts["settings"]))
        model = build_for(tensors, GLN, facts["model"], path)
        load_weights(model, tensors, path)
        annotate(model, check_threshold(facts["threshold"], path), facts["training"])
        learner._keep(model.eval(), facts["history"])
        return learner

    def _keep(self, model: GLN, history: list[dict[str, Any]]) -> None:
        """Set what was learned, all at once: a training that fails leaves nothing half-learned."""
        self.model_, self.threshold_, self.history_ = model, model.threshold, history
        self.n_features_in_ = model.pos_channels + model.in_channels

    def _answers(self, X: Sets, threshold: float) -> list[Graph]:
        return predict_graphs(self.model_, as_sets(X), Choice(threshold, batch_size=self.batch_size))

    def _plain_params(self) -> dict[str, Any]:
        """The settings with NumPy scalars, which a search over ``np.arange`` passes, as Python numbers."""
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params().items()
        }

    def _shape(self, graphs: list[Graph]) -> dict[str, Any]:
        """Settings of a model for ``graphs``."""
        pos_channels, in_channels = graphs[0].widths
        x_mean, x_std = feature_scale(graphs) if self.standardize else (None, None)
        given = self._plain_params()
        return {
            "in_channels": in_channels,
            "pos_channels": pos_channels,
            **{name: given[name] for name in ("width", "pair_width", "steps", "candidates")},
            "x_mean": x_mean,
            "x_std": x_std,
        }


def _with_edges(X: Sets, y: Sets) -> list[Graph]:
    if y is None:
        raise GLNError("Got y=None; expected the edges of every point set, a list of tables [m, 2].")
    return as_sets(X, list(y))  # a list: pandas would look up y[number] by label, not by place


def as_sets(X: Sets, y: Sets | None = None) -> list[Graph]:
    """Checked graphs from point sets and, if given, their edges; all sets must have the same widths."""
    if y is not None and len(X) != len(y):
        raise GLNError(
            f"Got {len(X)} point sets and {len(y)} sets of edges; expected one set of edges per point set."
        )
    graphs: list[Graph] = []
    for number, points in enumerate(X):
        try:
            graphs.append(_as_set(points, None if y is None else y[number]))
        except GLNError as error:
            raise GLNError(f"X[{number}]: {error}") from None
        now, first = graphs[-1].widths, graphs[0].widths
        if now != first:
            raise GLNError(
                f"X[{number}] has {now[0]} positions and {now[1]} features per node, X[0] has {first[0]} and "
                f"{first[1]}; give all sets the same."
            )
    if not graphs:
        raise GLNError("Got no point sets; expected at least one.")
    return graphs


def _as_set(points: Any, edges: Any) -> Graph:
    if isinstance(points, Graph) or is_data(points):
        graph = as_record(points)
        return make_graph(**graph.rows(), edges=edges, num_nodes=graph.num_nodes)
    if isinstance(points, tuple):
        if len(points) != 2:
            raise GLNError(f"got a tuple of length {len(points)}; expected (positions, features).")
        return make_graph(pos=points[0], x=points[1], edges=edges)
    return make_graph(pos=points, edges=edges)

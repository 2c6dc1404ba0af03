"""GLN as a scikit-learn estimator: sets of points in, sets of edges out."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

import numpy as np
import scipy.sparse as sp

from gln.errors import GLNError, about
from gln.evaluation.edges import edge_scores
from gln.graphs import split, to_scipy
from gln.graphs.check import check_graph, make_graph
from gln.graphs.columns import is_frame, is_table
from gln.graphs.convert import graph_of, share_kinds
from gln.graphs.features import feature_scale
from gln.graphs.record import KINDS, NAMES, Graph
from gln.inference.predict import Choice, as_points, predict_graphs
from gln.later import torch
from gln.models.contract import Kinds, kinds_in
from gln.models.gln import GLN
from gln.models.settings import Lengths, input_widths
from gln.seeds import seeded
from gln.storage.facts import Facts, accepted, as_kind, naming_misfits, read_facts
from gln.storage.models import find_saved, load_model, write_model
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

if TYPE_CHECKING:
    from torch_geometric.data import Data

KEY = "learner"  # of model.json
UNEQUAL = 30  # positions whose columns differ this much in scale are probably features

Sets = Sequence[Any]


class LearnerFacts(TypedDict):
    """What :meth:`GraphLearner.save` writes beside the weights."""

    settings: Facts
    history: list[Facts]
    names: NotRequired[list[str] | None]


@dataclass(kw_only=True, eq=False, repr=False)  # as scikit-learn compares and prints estimators
class GraphLearner(BaseEstimator):
    """Learns which points of a set are joined, from sets whose edges are known.

    A set of nodes is a table with one row per node: an array ``[n, w]``, a list of rows or a DataFrame. In a DataFrame,
    columns named x, y, z (and the like) are positions and all other numbers are features; without names, up to three
    columns are positions and more are features. A pair ``(positions [n, p], features [n, f])``, in which either may be
    ``None``, or a PyG ``Data`` says it itself. ``nodes_`` says what was decided.

    The edges of a set are pairs of row numbers ``[m, 2]`` or ``[2, m]``, in one direction or both, an adjacency matrix
    ``[n, n]``, or a graph of networkx or PyG. Sets may differ in size. ``GridSearchCV`` and ``cross_val_score`` can
    split lists of sets: one set is one sample.

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
        kinds: also learn what the graphs given as edges say: types, weights (of matrices too) and directions of edges,
            and types of nodes; :meth:`predict_graphs` says them.
        device: ``auto``, ``cpu`` or ``gpu``.
        random_state: seeds the initial weights, the choice of validation sets and the training order.
        verbose: show a progress bar.

    After :meth:`fit`:

    =====================  ==================================================================
    ``model_``             the trained :class:`gln.GLN`
    ``threshold_``         a pair with at least this probability is an edge
    ``history_``           one row per epoch, as in :class:`gln.training.FitResult`
    ``n_features_in_``     positions and features per node
    ``feature_names_in_``  their columns, if the sets are DataFrames; new sets need the same
    ``nodes_``             positions and features in words: "2 positions", "13 features"
    =====================  ==================================================================
    """

    width: int = 32
    pair_width: int = 32
    steps: int = 3
    candidates: int = 32
    epochs: int = 50
    batch_size: int = 20
    learning_rate: float = 1e-3
    edge_loss: Edge = "plain"
    validation_fraction: float = 0.1
    patience: int | None = None
    threshold: float | None = None
    standardize: bool = True
    kinds: bool = False
    device: Literal["auto", "cpu", "gpu"] = "auto"
    random_state: Any = None
    verbose: bool = False

    def fit(self, X: Sets, y: Sets, groups: Sequence[Hashable] | None = None) -> GraphLearner:
        """Learn from sets of nodes ``X`` and their edges ``y``.

        Args:
            X: the sets.
            y: the edges of each.
            groups: one label per set, as in scikit-learn: sets of one group are all learned, or all validated on.
        """
        graphs = _with_edges(X, y, self.kinds)
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
        fraction = float(self.validation_fraction)
        train, val, _ = split(graphs, settings.seed, test=0, val=fraction, groups=groups)
        self._remark(X, graphs)
        x_mean, x_std = feature_scale(train) if self.standardize else (None, None)
        pos_channels, in_channels = train[0].widths
        sizes = {name: given[name] for name in ("width", "pair_width", "steps", "candidates")}
        scale: dict[str, Any] = {"x_mean": x_mean, "x_std": x_std}
        found = kinds_in(graphs) if self.kinds else Kinds()
        lengths: Lengths = "absolute" if found.edge_weights else "local"
        with seeded(settings.seed):
            model = GLN(in_channels, pos_channels, **sizes, **scale, **asdict(found), lengths=lengths)
        result = fit(model, train, val, loss=loss, config=settings)
        if self.threshold is not None:
            model.threshold = float(self.threshold)
        self._keep(model, result.history, _names(X))
        return self

    def predict(self, X: Sets) -> list[np.ndarray]:
        """The edges of every set: pairs ``[m, 2]`` of row numbers, sorted, ``i < j`` unless directed."""
        check_is_fitted(self)
        return [graph.edges_once() for graph in self._answers(X, self.threshold_)]

    def predict_graphs(self, X: Sets) -> list[Data]:
        """The graph over every set, as :func:`gln.predict` gives it, with all kinds that were learned."""
        check_is_fitted(self)
        return [graph.to_data() for graph in self._answers(X, self.threshold_)]

    def predict_proba(self, X: Sets) -> list[sp.csr_array]:
        """The probabilities of all scored pairs: one sparse matrix ``[n, n]`` per set, symmetric unless directed.

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
        return float(edge_scores(_with_edges(X, y, self.kinds), self._answers(X, self.threshold_))["dice"])

    def save(self, path: Path | str) -> Path:
        """Save the fitted learner into a folder, like any model: ``gln.load`` and the commands read it too."""
        check_is_fitted(self)
        settings = self._plain_params()
        # A generator is not a plain value; its seed has been drawn.
        if not isinstance(settings["random_state"], int | None):
            settings["random_state"] = None
        learner = {"settings": settings, "history": self.history_, "names": self.feature_names_in_}
        write_model(self.model_, self.model_.state_dict(), Path(path), {KEY: learner})
        return Path(path)

    @classmethod
    def load(cls, path: Path | str) -> GraphLearner:
        """Load a learner that :meth:`save` wrote."""
        model = load_model(path)
        file = find_saved(path) / "model.json"
        found = read_facts(file).get(KEY)
        if found is None or input_widths(model) is None:
            raise GLNError(f"{path} is not a GraphLearner; expected a folder that GraphLearner.save wrote.")
        facts = as_kind(found, LearnerFacts, file)
        with naming_misfits(file):
            learner = cls(**accepted(cls, facts["settings"]))
        learner._keep(model, facts["history"], facts.get("names"))
        return learner

    def _keep(self, model: Any, history: list[dict[str, Any]], names: list[str] | None) -> None:
        """Set what was learned, all at once: a training that fails leaves nothing half-learned."""
        self.feature_names_in_ = names
        self.model_, self.threshold_, self.history_ = model, model.threshold, history
        widths = input_widths(model) or (0, 0)
        self.n_features_in_ = sum(widths)
        counts = zip(widths, ("positions", "features"), strict=True)
        self.nodes_ = " and ".join(f"{count} {name}" for count, name in counts if count)

    def _answers(self, X: Sets, threshold: float) -> list[Graph]:
        graphs = as_sets(self._by_name(X), widths=input_widths(self.model_))
        return predict_graphs(self.model_, graphs, Choice(threshold, batch_size=self.batch_size))

    def _by_name(self, X: Sets) -> Sets:
        """The sets; of DataFrames the columns that :meth:`fit` saw, in its order."""
        names = self.feature_names_in_
        if names is None or not all(map(is_frame, X)):
            return X
        for number, table in enumerate(X):
            missing = [name for name in names if name not in table.columns]
            if missing:
                raise GLNError(
                    f"X[{number}] has no column {missing[0]!r}; the training sets have {', '.join(names)}."
                )
        return [table[names] for table in X]

    def _remark(self, X: Sets, graphs: list[Graph]) -> None:
        """Warn if columns taken for positions differ so much in scale that they are rather features."""
        pos = graphs[0].pos
        if pos is None or not isinstance(X[0], np.ndarray | torch.Tensor):
            return
        spread = np.concatenate([graph.pos.numpy() for graph in graphs]).std(axis=0)
        if spread.max() > UNEQUAL * spread.min() > 0:
            warnings.warn(
                f"The {len(spread)} columns are taken for positions, but one varies {spread.max() / spread.min():,.0f} "
                "times as much as another; if they are features, which are scaled, pass (None, X) for each X.",
                stacklevel=3,
            )

    def _plain_params(self) -> dict[str, Any]:
        """The settings with NumPy scalars, which a search over ``np.arange`` passes, as Python numbers."""
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params().items()
        }


def _names(X: Sets) -> list[str] | None:
    """The names of the columns of the first set, if it is a DataFrame that names them."""
    first = next(iter(X))
    names = list(first.columns) if is_frame(first) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def _with_edges(X: Sets, y: Sets, kinds: bool = False) -> list[Graph]:
    if y is None:
        raise GLNError("Got y=None; expected the edges of every point set, a list of tables [m, 2].")
    return as_sets(X, list(y), kinds=kinds)  # a list: pandas would look up y[number] by label, not by place


def as_sets(
    X: Sets, y: Sets | None = None, widths: tuple[int, int] | None = None, kinds: bool = False
) -> list[Graph]:
    """Checked graphs from sets of nodes and, if given, their edges, perhaps with ``kinds``; all of the same widths."""
    if y is not None and len(X) != len(y):
        raise GLNError(
            f"Got {len(X)} point sets and {len(y)} sets of edges; expected one set of edges per point set."
        )
    graphs: list[Graph] = []
    for number, points in enumerate(X):
        with about(f"X[{number}]"):
            graphs.append(_as_set(points, None if y is None else y[number], widths, kinds))
        now, first = graphs[-1].widths, graphs[0].widths
        if now != first:
            raise GLNError(
                f"X[{number}] has {now[0]} positions and {now[1]} features per node, X[0] has {first[0]} and "
                f"{first[1]}; give all sets the same."
            )
    if not graphs:
        raise GLNError("Got no point sets; expected at least one.")
    share_kinds(graphs)
    return graphs


def _as_set(points: Any, edges: Any, widths: tuple[int, int] | None, kinds: bool) -> Graph:
    if isinstance(points, tuple) and not is_table(points):
        if len(points) != 2:
            raise GLNError(f"got a tuple of length {len(points)}; expected (positions, features).")
        graph = make_graph(pos=points[0], x=points[1])
    else:
        graph = as_points(points, widths=widths)
    if edges is None:
        return graph
    found = graph_of(edges, graph.num_nodes)
    named = {name: found.get(name) for name in (*KINDS, *NAMES, "directed")} if kinds else {}
    found = found if kinds else found.undirected()
    return check_graph(graph.with_edges(found.edge_index, **named))

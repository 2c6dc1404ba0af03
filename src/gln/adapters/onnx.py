"""Export to ONNX (``gln[onnx]``): what any runtime in any language can run, checked against torch before it is kept.

A GLN becomes two files. ``NAME.onnx`` scores all pairs of padded sets; ``NAME.candidates.onnx`` scores pairs in lists
that the caller chooses, such as the K nearest of every node (:func:`gln.storage.onnx.lists_of`). Other models score all
pairs and become the first alone.

===============  =============================  =============================================
                 all pairs                      candidates
===============  =============================  =============================================
in               ``pos [B, N, p]``,             ``pos [n, p]``, ``x [n, f]``, ``ends [2, m]``,
                 ``x [B, N, f]``,               ``back [m]``, ``slots [n, K]``,
                 ``mask [B, N]``                ``third [m, K]``
``probability``  ``[steps, B, N, N]``           ``[steps, m]``
``types``        ``[steps, B, N, N, T]``        ``[steps, m, T]``: chances of every type of edge
``weights``      ``[steps, B, N, N]``           ``[steps, m]``
``node_types``   ``[steps, B, N, C]``           ``[steps, n, C]``: chances of every type of node
===============  =============================  =============================================

What a model does not read or predict is left out.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gln import __version__
from gln.errors import GLNError, needed
from gln.files import Staged, digest_of
from gln.graphs.batch import GraphBatch, pair_mask
from gln.inference.predict import Method, as_method
from gln.models.candidates import candidate_pairs
from gln.models.contract import Generates, ScoresCandidates, StructureOutput, kind_names
from gln.models.pairs import AllPairs
from gln.models.settings import input_widths
from gln.ops.mix import NEVER, soften
from gln.storage.models import check_model
from gln.storage.onnx import ALL_PAIRS, CANDIDATES, FORMAT, LISTED, RUNTIME, SUFFIX, OnnxModel, lists_of

OPSET = 20
SIZES = (1, 2, 3, 17, 128)  # nodes of the sets that every file is checked with
NEAREST = 12  # candidates in these sets
TOLERANCE = 1e-4  # the largest difference of a probability from torch's
NOT_LISTED = ("proposals", "index_channels")  # settings that a graph of candidates does not hold
EXAMPLE = 7  # nodes of the sets it is traced with: no size that means anything
WORDS = {
    "mask": "bool: true for the nodes of a set, which come first",
    "pos": "positions, in any unit of length",
    "x": "features, not scaled",
    "ends": "source and target of every candidate pair, both directions, sorted",
    "back": "where the reverse of every pair is",
    "slots": "where the pairs of every node are; the number of pairs where there is none",
    "third": "of every pair ij and every pair ik in the row of i: where jk is; else the number of pairs",
}
LIST_AXES = {
    "ends": {1: "pairs"},
    "back": {0: "pairs"},
    "slots": {0: "nodes", 1: "slots"},
    "third": {0: "pairs", 1: "slots"},
}


def export(model: Method | Path | str, path: Path | str) -> list[Path]:
    """Write ``model`` as ONNX: ``path`` with the graph of all pairs and, of a GLN, another with that of candidates.

    Every file is run by onnxruntime and compared with torch; if a probability differs by more than 1e-4, nothing is
    written. A GLN that proposes candidates, or reads the order of the nodes, has no graph of candidates.

    Args:
        model: a model, the name of a shipped one, or the folder of a saved one.
        path: where to write it, ending in ``.onnx``.

    Returns:
        The files that were written.
    """
    path = check_target(path)
    network: Any = as_method(model)
    check_model(network)
    if next(network.parameters(), None) is None:
        raise GLNError(
            f"Got a {type(network).__name__} without weights of its own; export the model it comes from."
        )
    if isinstance(network, Generates):
        raise GLNError(
            f"A {type(network).__name__} draws graphs at random in many steps, which an ONNX file does not hold; "
            "use gln generate, or export a GLN."
        )
    needed(*RUNTIME)
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise GLNError("Export needs onnx and onnxscript; pip install 'gln[onnx]'.") from None
    graphs, config = {path: False}, network.config
    if isinstance(network, ScoresCandidates) and not any(map(config.get, NOT_LISTED)):
        graphs[path.with_name(path.name.removesuffix(SUFFIX) + LISTED)] = True
    network = deepcopy(network).to("cpu", torch.float32).eval()
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        staged = {target: stack.enter_context(Staged(target)) for target in graphs}
        for target, listed in graphs.items():
            staged[target].write(_exported(network, listed))
            staged[target].close()
            _check(network, staged[target].temporary, listed)
        for target, file in staged.items():
            file.keep(target)
    return list(graphs)


def check_target(path: Path | str) -> Path:
    """Refuse a name that is not that of the first file."""
    path = Path(path)
    if path.suffix.lower() != SUFFIX or path.name.endswith(LISTED):
        raise GLNError(f"Got {path.name!r}; models are exported as NAME{SUFFIX}.")
    return path


def _exported(model: Any, listed: bool) -> bytes:
    """The bytes of the file."""
    traced, given = Traced(model), _example(model, listed)
    free = {0: "sets"} if "nodes" in model.config else {0: "sets", 1: "nodes"}  # sizes that may be any
    sized = {name: LIST_AXES.get(name, {0: "nodes"}) if listed else free for name in given}
    try:
        with torch.no_grad(), _quietly():
            program: Any = torch.onnx.export(
                traced,
                kwargs={"given": given},
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes={"given": sized},
                input_names=list(given),
                output_names=list(traced(given)),
                external_data=False,
            )
    except Exception as error:  # torch's exporter has many
        if isinstance(error, GLNError):
            raise
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise GLNError(
            f"A {type(model).__name__} cannot be exported to ONNX ({reason}); export a GLN."
        ) from error
    proto = program.model_proto
    facts = {
        "model": type(model).__name__,
        "config": model.config,
        "threshold": float(getattr(model, "threshold", 0.5)),
        "steps": len(model(random_sets(model, 2)).logits),
        "names": {name: list(words) for name, words in kind_names(model).items()},
        "training": getattr(model, "training_facts", None) or {},
        "digest": digest_of(model.state_dict()),
    }
    words = {
        "gln.format": FORMAT,
        "gln.version": __version__,
        "gln.graph": CANDIDATES if listed else ALL_PAIRS,
    }
    words |= {"gln.inputs": json.dumps({name: WORDS[name] for name in given}), "gln.facts": json.dumps(facts)}
    del proto.metadata_props[:]
    for key, value in words.items():
        proto.metadata_props.add(key=key, value=value)
    for node in proto.graph.node:  # where in our code an operation comes from is nobody's business
        del node.metadata_props[:]
        node.doc_string = ""
    return proto.SerializeToString()


class Traced(nn.Module):
    """A model as a function of plain tensors: over listed pairs if their lists are given, else over all pairs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        pos, x = given.get("pos"), given.get("x")
        more: dict[str, Any] = {}
        if "ends" in given:
            pos, x = (None if rows is None else rows[None] for rows in (pos, x))
            mask = torch.ones_like(given["slots"][None, :, 0], dtype=torch.bool)
            more["pairs"] = GivenPairs(*(given[name] for name in ("ends", "back", "slots", "third")))
        else:
            mask = given["mask"]
            if isinstance(self.model, ScoresCandidates):
                more["pairs"] = OneBlock(pair_mask(mask))
        return _outputs(self.model(GraphBatch(pos, x, mask, mask), **more))


def _outputs(found: StructureOutput) -> dict[str, Tensor]:
    """Probabilities and weights after every step, 0 where no pair was scored."""
    chances = torch.stack(found.logits).sigmoid() * found.mask
    outputs = {"probability": chances}
    if found.types is not None:
        outputs["types"] = torch.stack(found.types).softmax(-1)
    if found.weights is not None:
        outputs["weights"] = torch.stack(found.weights).clamp(-80, 80).exp()
    if found.nodes is not None:
        outputs["node_types"] = torch.stack(found.nodes).softmax(-1)
    return outputs


class OneBlock(AllPairs):
    """All pairs at once, whatever their number."""

    def blocks(self, size: int | None = None) -> list[AllPairs]:
        return [self]


@dataclass(frozen=True)
class GivenPairs:
    """The ``m`` pairs of ``n`` nodes in the lists of :func:`gln.storage.onnx.lists_of`, as one block.

    The operations are those of :mod:`gln.models.pairs`, by gathers and products of matrices alone: what any runtime can
    do, for any number of pairs.
    """

    ends: Tensor
    back: Tensor
    slots: Tensor
    third: Tensor

    candidates = None

    @property
    def shape(self) -> tuple[int]:
        return (self.ends.shape[1],)

    @property
    def mask(self) -> Tensor:
        return torch.ones_like(self.back, dtype=torch.bool)

    def blocks(self, size: int | None = None) -> list[GivenPairs]:
        return [self]

    def of_all_nodes(self) -> tuple[GivenPairs, None]:
        return self, None

    def from_batch(self, values: Tensor) -> Tensor:
        """``[1, n, ...] → [n, ...]``."""
        return values.flatten(0, 1)

    def rows(self, values: Tensor) -> Tensor:
        return values

    to_batch = in_slots = only = pairs = rows

    def source(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.ends[0])

    def target(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.ends[1])

    of_row = source

    def reverse(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.back)

    def by_row(self, values: Tensor, fill: float) -> Tensor:
        """``[m, ...] → [n, K, ...]``; the number ``m`` finds ``fill``."""
        every = torch.cat([values, values.new_full((1, *values.shape[1:]), fill)])
        return every.index_select(0, self.slots.flatten()).unflatten(0, self.slots.shape)

    def row_total(self, values: Tensor) -> Tensor:
        return self.by_row(values, 0).sum(1)

    total = row_total

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor:
        """Weights ``[m, h]``, node values ``[n, h, c]`` → ``[n, h, c]``."""
        return self.row_total(weight[..., None] * self.target(values))

    def around(self, states: list[Tensor | None], number: int) -> Tensor | None:
        return states[number]

    def mix(self, read: Tensor) -> tuple[Tensor, Tensor]:
        """``[m, 4, h, d] → [m, h, d], [m, h]``, as :mod:`gln.ops.mix` says."""
        query, key, first, second = read.unbind(1)
        place, real, there, swap = self.places
        # Of every node k, one product of matrices has the scores of all ik with all jk: [h, n, K, K].
        among = self.heads(self.reverse(query)) @ self.heads(self.reverse(key)).mT
        weight, total = soften(self.gathered(among, there) + (1 - real) * NEVER)  # [h, m, K], [h, m]
        swapped = self.gathered(weight, swap) * real
        mixed = self.sums(weight, first, place) + self.sums(swapped, second, place[self.back])
        return mixed.transpose(0, 1), total.mT

    @cached_property
    def places(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What every step looks up: the place of every pair among all slots of all rows ``[m]``; for ``ij`` and every
        ``ik`` 1 if ``jk`` is a pair, where their score is among those of ``k``, and where the weight of ``ji`` and
        ``jk`` is, all ``[m, K]``.
        """
        count, slots = self.ends.shape[1], self.slots.shape[1]
        row = self.slots.index_select(0, self.ends[0])  # of every pair ij, the pairs ik
        slot = (torch.arange(count) - row[:, 0]).clamp(min=0)  # of every pair in its row
        place, real = self.ends[0] * slots + slot, self.third < count
        jk, ik = self.third.where(real, 0), row.where(real, 0)
        there = place[self.back][ik] * slots + slot[self.back][jk]
        return place, real.to(torch.float32), there, self.back[:, None] * slots + slot[jk]

    def gathered(self, values: Tensor, there: Tensor) -> Tensor:
        """``[h, ...]``, found at ``there [m, K]`` of all others: ``[h, m, K]``, all heads of an entry at once."""
        rows = values.flatten(1).T.index_select(0, there.flatten())
        return rows.unflatten(0, there.shape).permute(2, 0, 1)

    def heads(self, values: Tensor) -> Tensor:
        """``[m, h, d] → [h, n, K, d]``."""
        return self.by_row(values, 0).permute(2, 0, 1, 3)

    def sums(self, weight: Tensor, values: Tensor, place: Tensor) -> Tensor:
        """Of every pair the weighted sum ``[h, m, K]`` over the pairs of its row, read at ``place``: ``[h, m, d]``."""
        rows = self.heads(weight.transpose(0, 1))  # [h, n, K, K]
        return (rows @ self.heads(values)).flatten(1, 2).index_select(1, place)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporter's account of its work."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def random_sets(model: Any, nodes: int) -> GraphBatch:
    """Two sets, one of them with fewer nodes, drawn always alike."""
    config, draw = model.config, torch.Generator().manual_seed(nodes)
    nodes = config.get("nodes", nodes)
    sizes = torch.tensor([nodes, nodes if "nodes" in config else (nodes + 1) // 2])
    mask = torch.arange(nodes) < sizes[:, None]
    widths = input_widths(model) or (0, config["in_channels"])
    pos, x = (torch.rand(2, nodes, width, generator=draw) if width else None for width in widths)
    if x is not None and config.get("x_mean") is not None:
        x = (x - 0.5) * 3 * torch.tensor(config["x_std"]) + torch.tensor(config["x_mean"])
    pos, x = (None if rows is None else rows * mask[..., None] for rows in (pos, x))
    return GraphBatch(pos, x, pair_mask(mask), mask)


def _example(model: Any, listed: bool) -> dict[str, Tensor]:
    """Inputs to trace the model with."""
    batch = random_sets(model, EXAMPLE)
    rows = {name: rows for name in ("pos", "x") if (rows := getattr(batch, name)) is not None}
    if not listed:
        return rows | {"mask": batch.mask}
    pairs: Any = candidate_pairs(next(iter(rows.values())), batch.mask, EXAMPLE - 2, listed=True)
    return {name: value.flatten(0, 1) for name, value in rows.items()} | lists_of(pairs)


def _check(model: Any, file: Path, listed: bool) -> None:
    """Refuse a file that says anything else than torch does."""
    exported = OnnxModel(file)
    for nodes in SIZES:
        batch, nearest = random_sets(model, nodes), NEAREST if listed else nodes
        # All pairs also of a model that would choose fewer itself.
        chosen = {"candidates": nearest} if isinstance(model, ScoresCandidates) else {}
        with torch.no_grad():
            ours = model(batch, **chosen)
            if listed:
                theirs = exported.of_candidates(batch, batch.sizes.clamp(max=nearest))
            else:
                theirs = exported.of_all_pairs(batch)
        worst = difference(ours, theirs)
        if not worst <= TOLERANCE:
            raise GLNError(
                f"The exported {type(model).__name__} differs from torch by {worst:.1e} at {nodes} nodes, more than "
                f"{TOLERANCE:.0e}; nothing was written."
            )


@torch.no_grad()
def difference(ours: StructureOutput, theirs: StructureOutput) -> float:
    """The largest difference of any probability, or of the logarithm of any weight, after any step; NaN if one is."""
    meanings: dict[str, Callable[[Tensor], Tensor]] = {
        "logits": Tensor.sigmoid,
        "types": lambda scores: scores.softmax(-1),
        "weights": lambda scores: scores,
        "nodes": lambda scores: scores.softmax(-1),
    }
    apart = [torch.zeros(1)]
    for name, meaning in meanings.items():
        for one, other in zip(getattr(ours, name) or (), getattr(theirs, name) or (), strict=True):
            if name != "nodes":  # both list the pairs by their ends, as a matrix or in slots
                one, other = one[ours.mask], other[theirs.mask]
            apart.append((meaning(one) - meaning(other)).abs().flatten())
    return float(torch.cat(apart).max())

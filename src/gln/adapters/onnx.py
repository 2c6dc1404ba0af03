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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gln import __version__
from gln.errors import GLNError
from gln.files import Staged, digest_of
from gln.graphs.batch import GraphBatch, pair_mask
from gln.inference.predict import Method, as_method
from gln.models.contract import Generates, ScoresCandidates, StructureOutput, kind_names
from gln.models.pairs import AllPairs
from gln.models.settings import input_widths
from gln.ops.mix import NEVER, soften
from gln.storage.models import check_model
from gln.storage.onnx import FORMAT, LISTED, SUFFIX, OnnxModel, lists_of, runtime

OPSET = 20
SIZES = (1, 2, 3, 17, 128)  # nodes of the sets that every file is checked with
NEAREST = 12  # candidates in these sets
TOLERANCE = 1e-4  # the largest difference of a probability from torch's
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
    weight = next(network.parameters(), None)
    if weight is None:
        raise GLNError(
            f"Got a {type(network).__name__} without weights of its own; export the model it comes from."
        )
    if isinstance(network, Generates):
        raise GLNError(
            f"A {type(network).__name__} draws graphs at random in many steps, which an ONNX file does not hold; "
            "use gln generate, or export a GLN."
        )
    _packages()
    config = network.config
    listed = isinstance(network, ScoresCandidates) and not any(
        config.get(name) for name in ("proposals", "index_channels")
    )
    graphs = {path: False} | (
        {path.with_name(path.name.removesuffix(SUFFIX) + LISTED): True} if listed else {}
    )
    training, device, kind = network.training, weight.device, weight.dtype
    network.eval()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as stack:
            network.to("cpu", torch.float32)
            staged = {target: stack.enter_context(Staged(target)) for target in graphs}
            for target, form in graphs.items():
                staged[target].write(_exported(network, form))
                staged[target].close()
                _check(network, staged[target].temporary, form)
            for target, file in staged.items():
                file.keep(target)
    finally:
        network.train(training).to(device, kind)
    return list(graphs)


def check_target(path: Path | str) -> Path:
    """Refuse a name that is not that of the first file."""
    path = Path(path)
    if path.suffix.lower() != SUFFIX or path.name.endswith(LISTED):
        raise GLNError(f"Got {path.name!r}; models are exported as NAME{SUFFIX}.")
    return path


def _packages() -> None:
    runtime()
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise GLNError("Export needs onnx and onnxscript; pip install 'gln[onnx]'.") from None


def _exported(model: Any, listed: bool) -> bytes:
    """The bytes of the file."""
    traced = OfCandidates(model) if listed else OfAllPairs(model)
    given = _example(model, EXAMPLE, listed)
    sized = {name: _axes(name, listed, "nodes" in model.config) for name in given}
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
        "steps": len(model(_batch(model, 2)).logits),
        "names": {name: list(words) for name, words in kind_names(model).items()},
        "digest": digest_of(model.state_dict()),
    }
    words = {
        "gln.format": FORMAT,
        "gln.version": __version__,
        "gln.graph": "candidates" if listed else "all pairs",
    }
    words |= {"gln.inputs": json.dumps({name: WORDS[name] for name in given}), "gln.facts": json.dumps(facts)}
    del proto.metadata_props[:]
    for key, value in words.items():
        proto.metadata_props.add(key=key, value=value)
    for node in proto.graph.node:  # where in our code an operation comes from is nobody's business
        del node.metadata_props[:]
        node.doc_string = ""
    return proto.SerializeToString()


def _axes(name: str, listed: bool, fixed: bool) -> dict[int, Any]:
    """Which sizes of an input may be any."""
    if listed:
        named = {"ends": {1: "pairs"}, "back": {0: "pairs"}, "slots": {0: "nodes", 1: "slots"}}
        named |= {"third": {0: "pairs", 1: "slots"}}
        return named.get(name) or {0: "nodes"}
    return {0: "sets"} if fixed else {0: "sets", 1: "nodes"}


class OfAllPairs(nn.Module):
    """A model as a function of plain tensors, over all pairs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        mask = given["mask"]
        pairs = pair_mask(mask)
        batch = GraphBatch(given.get("pos"), given.get("x"), pairs, mask)
        whole = {"pairs": OneBlock(pairs)} if isinstance(self.model, ScoresCandidates) else {}
        return _outputs(self.model(batch, **whole))


class OfCandidates(nn.Module):
    """A model as a function of plain tensors, over listed pairs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        rows: dict[str, Any] = {name: given[name][None] if name in given else None for name in ("pos", "x")}
        pairs = GivenPairs(*(given[name] for name in ("ends", "back", "slots", "third")))
        mask = torch.ones_like(given["slots"][None, :, 0], dtype=torch.bool)
        return _outputs(self.model(GraphBatch(**rows, adj=mask, mask=mask), pairs=pairs))


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

    def blocks(self, size: int) -> list[AllPairs]:
        return [self]


@dataclass(frozen=True)
class GivenPairs:
    """Listed pairs whose lists are inputs, so that every sum is a gather: what any runtime can do.

    The operations are those of :class:`gln.models.pairs.ListedPairs`, the lists those of
    :func:`gln.storage.onnx.lists_of`.
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

    def blocks(self, size: int) -> list[GivenPairs]:
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
        """``[m, ...] → [n, K, ...]``."""
        every = _or_else(values, fill).index_select(0, self.slots.flatten())
        return every.unflatten(0, self.slots.shape)

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
        rows = self.by_row(weight.transpose(0, 1), 0).permute(2, 0, 1, 3)  # [h, n, K, K]
        return (rows @ self.heads(values)).flatten(1, 2).index_select(1, place)


def _or_else(values: Tensor, fill: float) -> Tensor:
    """``values [m, ...]`` with one more row, which the number ``m`` finds."""
    return torch.cat([values, values.new_full((1, *values.shape[1:]), fill)])


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


def _batch(model: Any, nodes: int) -> GraphBatch:
    """Two sets, one of them with fewer nodes, drawn always alike."""
    config, draw = model.config, torch.Generator().manual_seed(nodes)
    nodes = config.get("nodes", nodes)
    pos, x = input_widths(model) or (0, config["in_channels"])
    mask = (
        torch.arange(nodes) < torch.tensor([nodes, nodes if "nodes" in config else (nodes + 1) // 2])[:, None]
    )
    fields: dict[str, Any] = {
        name: torch.rand(2, nodes, width, generator=draw) * mask[..., None] if width else None
        for name, width in (("pos", pos), ("x", x))
    }
    if fields["x"] is not None and config.get("x_mean") is not None:
        spread = torch.tensor(config["x_std"])
        fields["x"] = (fields["x"] - 0.5) * 3 * spread + torch.tensor(config["x_mean"])
        fields["x"] = fields["x"] * mask[..., None]
    return GraphBatch(**fields, adj=pair_mask(mask), mask=mask)


def _example(model: Any, nodes: int, listed: bool) -> dict[str, Tensor]:
    """Inputs to trace the model with."""
    batch = _batch(model, nodes)
    rows = {name: rows for name in ("pos", "x") if (rows := getattr(batch, name)) is not None}
    if not listed:
        return rows | {"mask": batch.mask}
    from gln.models.candidates import candidate_pairs

    where = next(iter(rows.values()))
    pairs: Any = candidate_pairs(where, batch.mask, nodes - 2, listed=True)
    return {name: value.flatten(0, 1) for name, value in rows.items()} | lists_of(pairs)


def _check(model: Any, file: Path, listed: bool) -> None:
    """Refuse a file that says anything else than torch does."""
    exported = OnnxModel(None, file) if listed else OnnxModel(file, None)
    for nodes in SIZES:
        batch = _batch(model, nodes)
        with torch.no_grad():
            if listed:
                nearest = batch.sizes.clamp(max=NEAREST)
                ours, theirs = model(batch, candidates=NEAREST), exported.of_candidates(batch, nearest)
            else:
                ours, theirs = model(batch), exported.of_all_pairs(batch)
        worst = difference(ours, theirs)
        if not worst <= TOLERANCE:
            raise GLNError(
                f"The exported {type(model).__name__} differs from torch by {worst:.1e} at {nodes} nodes, more than "
                f"{TOLERANCE:.0e}; nothing was written."
            )


@torch.no_grad()
def difference(ours: StructureOutput, theirs: StructureOutput) -> float:
    """The largest difference of any probability, or of the logarithm of any weight, after any step."""
    same = {
        "logits": Tensor.sigmoid,
        "types": lambda scores: scores.softmax(-1),
        "weights": lambda scores: scores,
    }
    worst = 0.0
    for name, meaning in same.items():
        for one, other in zip(getattr(ours, name) or (), getattr(theirs, name) or (), strict=True):
            # Both list the pairs by their ends, as a matrix or in slots.
            apart = meaning(one[ours.mask]) - meaning(other[theirs.mask])
            worst = max(worst, float(apart.abs().max()) if apart.numel() else 0.0)
    for one, other in zip(ours.nodes or (), theirs.nodes or (), strict=True):
        worst = max(worst, float((one.softmax(-1) - other.softmax(-1)).abs().max()))
    return worst

"""Models exported to ONNX (``gln[onnx]``), read again: one more kind of model file, run by onnxruntime.

A file holds one graph: of all pairs, or of candidates, whose lists are chosen here as the model itself chooses them.
``NAME.onnx`` is the first and ``NAME.candidates.onnx`` the second, which is used for large sets if it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.files import check_format, read_regular
from gln.graphs.batch import GraphBatch, as_batch, pair_mask
from gln.models.candidates import DENSE_NODES, candidate_pairs
from gln.models.contract import StructureOutput, kinds_of
from gln.models.pairs import ListedPairs
from gln.ops.mix import third_nodes
from gln.storage.facts import Facts, as_kind, check_threshold, parse_facts

FORMAT = "gln onnx 2"
SUFFIX, LISTED = ".onnx", ".candidates.onnx"
MOST_BYTES = 2**31  # of a file: what a protocol buffer can hold
LARGEST = 400  # nodes of a set that is scored over all pairs: each pair reads every third node
MOST_THIRDS = (
    2**26
)  # pairs times third nodes of one run: above, a runtime that keeps them all needs too much memory
LEAST_SLOTS = 4  # of a row: the unit of length looks at so many nearest nodes


class Said(TypedDict):
    """What every file says of its model."""

    model: str
    config: Facts
    threshold: float
    steps: int
    names: dict[str, list[str]]
    digest: str


class Read(TypedDict, total=False):
    """Of its settings, those that are read again."""

    pos_channels: int
    in_channels: int
    candidates: int
    edge_types: int
    node_types: int
    directed: bool
    edge_weights: bool
    x_mean: list[float] | None
    x_std: list[float] | None


def runtime() -> Any:
    """onnxruntime, or a sentence that says how to get it."""
    try:
        import onnxruntime
    except ImportError:
        raise GLNError("ONNX files need onnxruntime; pip install 'gln[onnx]'.") from None
    return onnxruntime


class OnnxModel(nn.Module):
    """The model in ONNX files that gln has written; its ``config`` and ``threshold`` are those of the original.

    Args:
        whole: the graph of all pairs, or ``None``.
        listed: that of candidates, or ``None``.
    """

    def __init__(self, whole: Path | None, listed: Path | None) -> None:
        super().__init__()
        self.sessions: dict[str, Any] = {}
        self.facts: Facts = {}
        for name, file in (("whole", whole), ("listed", listed)):
            if file is not None:
                self.path = file
                self.sessions[name], facts = open_graph(file)
                if self.facts.get("digest", facts["digest"]) != facts["digest"]:
                    raise GLNError(
                        f"{whole} and {listed} come from different models; export one of them again."
                    )
                self.facts = facts
        self.config: Facts = self.facts["config"]
        self.threshold = float(self.facts["threshold"])
        self.training_facts = {"names": self.facts.get("names") or {}}

    def forward(
        self, batch: GraphBatch, initial: Tensor | None = None, steps: int | None = None
    ) -> StructureOutput:
        """The structure after every step, of all pairs in sets of up to 128 nodes and of candidates in larger ones."""
        if initial is not None:
            raise GLNError(
                f"{self.path} starts from no edges; leave out known, or use the model it was exported from."
            )
        batch, most = as_batch(batch), self.facts["steps"]
        if steps is not None and not 1 <= steps <= most:
            raise GLNError(f"Got steps={steps}; {self.path} has 1 to {most}.")
        try:
            output = self._scored(batch)
        except GLNError:
            raise
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise GLNError(
                f"{self.path} does not hold what gln export writes ({error}); export it again."
            ) from None
        return self._first(output, steps)

    def _scored(self, batch: GraphBatch) -> StructureOutput:
        nodes, small = batch.mask.shape[1], 0 if self.config.get("sparse") else DENSE_NODES
        if "listed" in self.sessions and (nodes > small or "whole" not in self.sessions):
            nearest = torch.where(batch.sizes <= small, batch.sizes, self.config["candidates"])
            return self.of_candidates(batch, nearest)
        if nodes > LARGEST:
            raise GLNError(
                f"{self.path} scores all pairs, of up to {LARGEST} nodes, but got {nodes:,}; put "
                f"the graph of candidates, {self.path.name.removesuffix(SUFFIX)}{LISTED}, beside it."
            )
        return self.of_all_pairs(batch)

    def of_all_pairs(self, batch: GraphBatch) -> StructureOutput:
        """Every two nodes of each set."""
        given = {"pos": batch.pos, "x": batch.x, "mask": batch.mask}
        found = self._run("whole", given)
        return self._output(found, pair_mask(batch.mask), None)

    def of_candidates(self, batch: GraphBatch, nearest: Tensor) -> StructureOutput:
        """Every node with its ``nearest [B]`` nodes, as one list for all sets."""
        where = batch.pos if self.config["pos_channels"] else self._scaled(batch.x)
        if where is None:
            raise GLNError(f"{self.path} finds candidates by what the nodes have none of.")
        pairs = candidate_pairs(where.float(), batch.mask, nearest, listed=True)
        assert isinstance(pairs, ListedPairs)
        given: dict[str, Tensor | None] = {
            name: None if rows is None else pairs.from_batch(rows)
            for name, rows in (("pos", batch.pos), ("x", batch.x))
        }
        found = self._run("listed", given | lists_of(pairs))
        count, shaped = pairs.ends.shape[1], {}
        for name, every in found.items():
            put = pairs.to_batch if name == "node_types" else pairs.in_slots
            shaped[name] = torch.stack([put(one if name == "node_types" else one[:count]) for one in every])
        return self._output(shaped, pairs.mask, pairs.candidates)

    def _scaled(self, x: Tensor | None) -> Tensor | None:
        mean, std = self.config.get("x_mean"), self.config.get("x_std")
        return x if x is None or mean is None or std is None else (x - x.new_tensor(mean)) / x.new_tensor(std)

    def _run(self, form: str, given: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
        session = self.sessions[form]
        feed: dict[str, np.ndarray] = {}
        for entry in session.get_inputs():
            values = given.get(entry.name)
            if values is None or (entry.name in ("pos", "x") and values.shape[-1] != entry.shape[-1]):
                got = 0 if values is None else values.shape[-1]
                raise GLNError(
                    f"Got {entry.name} with {got} values per node; {self.path} expects {entry.shape[-1]}."
                )
            kind = {"tensor(float)": np.float32, "tensor(bool)": np.bool_}.get(entry.type, np.int64)
            feed[entry.name] = values.numpy(force=True).astype(kind)
        names = [entry.name for entry in session.get_outputs()]
        found = speaking(self.path, session.run, names, feed)
        return {name: torch.from_numpy(values) for name, values in zip(names, found, strict=True)}

    def _output(self, found: dict[str, Tensor], mask: Tensor, candidates: Tensor | None) -> StructureOutput:
        """From probabilities ``[steps, …]`` back to the scores that everything else reads."""
        scores = {
            "logits": found["probability"].logit(eps=1e-12),
            "types": found["types"].log() if "types" in found else None,
            "weights": found["weights"].log() if "weights" in found else None,
            "nodes": found["node_types"].log() if "node_types" in found else None,
        }
        every: dict[str, Any] = {
            name: None if part is None else part.unbind(0) for name, part in scores.items()
        }
        return StructureOutput(
            **every, states=(), mask=mask, candidates=candidates, directed=kinds_of(self).directed
        )

    def _first(self, output: StructureOutput, steps: int | None) -> StructureOutput:
        if steps is None:
            return output
        every = ("logits", "types", "weights", "nodes")
        some = {
            name: part if part is None else part[:steps]
            for name, part in vars(output).items()
            if name in every
        }
        return StructureOutput(**vars(output) | some)


def load_onnx(path: Path) -> OnnxModel:
    """The model in ``path``, either of its two files; the other is read if it lies beside it."""
    whole = path.with_name(path.name.replace(LISTED, SUFFIX))
    listed = path.with_name(whole.name.removesuffix(SUFFIX) + LISTED)
    return OnnxModel(*(file if file == path or file.is_file() else None for file in (whole, listed)))


def lists_of(pairs: ListedPairs) -> dict[str, Tensor]:
    """The lists that a graph of candidates takes, of ``m ≥ 1`` pairs and ``n`` nodes; ``m`` stands where there is none.

    ==========  ==============  ===================================================================
    ``ends``    ``[2, m]``      source and target of every pair
    ``back``    ``[m]``         where the pair ``j → i`` of every ``i → j`` is
    ``slots``   ``[n, ≥ 4]``    where the pairs of every node are
    ``third``   ``[m, ≥ 4]``    of every pair ``ij`` and every pair ``ik`` in the row of ``i``: where ``jk`` is
    ==========  ==============  ===================================================================
    """
    count, nodes = pairs.ends.shape[1], len(pairs.start) - 1
    place = torch.arange(count)
    slots = _rows(place, pairs.ends[0], nodes, count)
    pair, ik, jk = third_nodes(pairs.start, pairs.ends[1], slice(0, nodes), slice(0, count))
    if count * slots.shape[1] > MOST_THIRDS:
        raise GLNError(
            f"{nodes:,} nodes with {count:,} candidate pairs are too many for an ONNX file; "
            "use the model it was exported from."
        )
    third = torch.full((count, slots.shape[1]), count)
    third[pair, ik - pairs.start[pairs.ends[0][ik]]] = jk
    if not count:  # not every runtime multiplies nothing: one pair of a node with itself, which nobody reads
        nothing = torch.zeros(1, dtype=torch.long)
        return {
            "ends": nothing.expand(2, 1),
            "back": nothing,
            "slots": slots + 1,
            "third": nothing.expand(1, LEAST_SLOTS) + 1,
        }
    return {"ends": pairs.ends, "back": pairs.back, "slots": slots, "third": third}


def _rows(values: Tensor, row: Tensor, count: int, fill: int) -> Tensor:
    """``values [m]``, sorted by their ``row [m]``, as ``[count, ≥ 4]``, each row filled up with ``fill``."""
    degree = torch.bincount(row, minlength=count)
    width = max(int(degree.max()) if count else 0, LEAST_SLOTS)
    table = values.new_full((count, width), fill)
    table[row, torch.arange(len(row)) - (degree.cumsum(0) - degree)[row]] = values
    return table


def open_graph(path: Path) -> tuple[Any, Facts]:
    """A session of onnxruntime and the facts in the file; this runs no code of the file, and reads no other file."""
    ort = runtime()
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise GLNError(f"{path} cannot be read ({error.strerror or error}); check the path.") from None
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what is wrong, we say
    options.intra_op_num_threads = torch.get_num_threads()
    # Without a second attempt, which it announces in several lines of its own.
    session = speaking(
        path, ort.InferenceSession, data, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    words = session.get_modelmeta().custom_metadata_map
    check_format(words.get("gln.format"), FORMAT, path, "a model written by gln export")
    facts = parse_facts(words.get("gln.facts", ""), path)
    known = as_kind({name: facts[name] for name in Said.__annotations__ if name in facts}, Said, path)
    read = {name: known["config"][name] for name in Read.__annotations__ if name in known["config"]}
    as_kind(read, Read, path)
    check_threshold(facts["threshold"], path)
    return session, facts


def speaking(path: Path, call: Any, *given: Any, **named: Any) -> Any:
    """What ``call`` of onnxruntime returns; an error of its own becomes a sentence."""
    try:
        return call(*given, **named)
    except Exception as error:  # its errors have no class in common
        reason = " ".join(str(error).split())[:160]
        raise GLNError(f"{path} cannot be run by onnxruntime ({reason}); export the model again.") from None

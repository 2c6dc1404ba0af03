"""Models exported to ONNX (``gln[onnx]``), read again: one more kind of model file, run by onnxruntime.

A file holds one graph: of all pairs, or of candidates, whose lists are chosen here as the model itself chooses them.
``NAME.onnx`` is the first and ``NAME.candidates.onnx`` the second, which is used for large sets if it is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
import torch
from torch import Tensor, nn

from gln.errors import GLNError, needed
from gln.files import check_format
from gln.graphs.batch import GraphBatch, as_batch, pair_mask
from gln.models.candidates import DENSE_NODES, candidate_pairs
from gln.models.contract import StructureOutput, kinds_of
from gln.models.pairs import ListedPairs
from gln.storage.facts import Facts, as_kind, check_threshold, parse_facts, read_whole
from gln.storage.models import Training

FORMAT = "gln onnx 2"
SUFFIX, LISTED = ".onnx", ".candidates.onnx"
ALL_PAIRS, CANDIDATES = "all pairs", "candidates"  # what the graph of a file scores
RUNTIME = ("onnxruntime", "ONNX files", "onnx")
MOST_BYTES = 2**31  # of a file: what a protocol buffer can hold
LARGEST = 400  # nodes of a set that is scored over all pairs: each pair reads every third node
# Pairs times third nodes of one run: above, a runtime that keeps them all needs too much memory.
MOST_THIRDS = 2**26
LEAST_SLOTS = 4  # of a row: the unit of length looks at so many nearest nodes


class Read(TypedDict, total=False):
    """Of a model's settings, those that are read again."""

    pos_channels: int
    in_channels: int
    candidates: int
    sparse: bool
    edge_types: int
    node_types: int
    directed: bool
    edge_weights: bool
    x_mean: list[float] | None
    x_std: list[float] | None


class Said(TypedDict):
    """What every file says of its model."""

    model: str
    config: Read
    threshold: float
    steps: int
    names: dict[str, list[str]]
    training: NotRequired[Training]  # not in the first files
    digest: str


class OnnxModel(nn.Module):
    """The model in ONNX files that gln has written; its ``config`` and ``threshold`` are those of the original.

    Args:
        files: a file, or both files of one model.
    """

    def __init__(self, *files: Path) -> None:
        super().__init__()
        self.path, self.sessions = files[0], {}
        digests = set()
        for file in files:
            session, self.facts, graph = open_graph(file)
            self.sessions[graph] = session
            digests.add(self.facts["digest"])
        if len(digests) > 1 or len(self.sessions) < len(files):
            raise GLNError(
                f"{' and '.join(map(str, files))} are not both graphs of one model; export it again."
            )
        self.config: Facts = self.facts["config"]
        self.threshold = float(self.facts["threshold"])
        self.training_facts = {**self.facts.get("training", {}), "names": self.facts["names"]}

    def forward(
        self, batch: GraphBatch, initial: Tensor | None = None, steps: int | None = None
    ) -> StructureOutput:
        """The structure after every step, of all pairs in sets of up to 128 nodes and of candidates in larger ones."""
        if initial is not None:
            raise GLNError(
                f"{self.path} starts from no edges; leave out known, or use the model it was exported from."
            )
        most = self.facts["steps"]
        if steps is not None and not 1 <= steps <= most:
            raise GLNError(f"Got steps={steps}; {self.path} has 1 to {most}.")
        try:
            return self._scored(as_batch(batch), steps)
        except GLNError:
            raise
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise GLNError(
                f"{self.path} does not hold what gln export writes ({error}); export it again."
            ) from None

    def _scored(self, batch: GraphBatch, steps: int | None) -> StructureOutput:
        nodes, small = batch.mask.shape[1], 0 if self.config.get("sparse") else DENSE_NODES
        if CANDIDATES in self.sessions and (nodes > small or ALL_PAIRS not in self.sessions):
            nearest = torch.where(batch.sizes <= small, batch.sizes, self.config["candidates"])
            return self.of_candidates(batch, nearest, steps)
        if nodes > LARGEST:
            raise GLNError(
                f"{self.path} scores all pairs, of up to {LARGEST} nodes, but got {nodes:,}; put the graph of "
                f"candidates, {self.path.name.removesuffix(SUFFIX)}{LISTED}, beside it, or use the original."
            )
        return self.of_all_pairs(batch, steps)

    def of_all_pairs(self, batch: GraphBatch, steps: int | None = None) -> StructureOutput:
        """Every two nodes of each set."""
        found = self._run(ALL_PAIRS, {"pos": batch.pos, "x": batch.x, "mask": batch.mask}, steps)
        return self._output(found, pair_mask(batch.mask), None)

    def of_candidates(self, batch: GraphBatch, nearest: Tensor, steps: int | None = None) -> StructureOutput:
        """Every node with its ``nearest [B]`` nodes, as one list for all sets."""
        where, x = self._read(batch)
        pairs = candidate_pairs(where, batch.mask, nearest, listed=True, x=x)
        assert isinstance(pairs, ListedPairs)
        given: dict[str, Tensor | None] = {**lists_of(pairs)}
        for name, rows in (("pos", batch.pos), ("x", batch.x)):
            given[name] = None if rows is None else pairs.from_batch(rows)
        whole, scored = pairs.of_all_nodes()
        count, shaped = pairs.ends.shape[1], {}
        for name, every in self._run(CANDIDATES, given, steps).items():
            if name == "node_types":
                put = [pairs.to_batch(one) for one in every]
            else:
                put = [whole.in_slots(one[:count] if scored is None else one[scored]) for one in every]
            shaped[name] = torch.stack(put)
        return self._output(shaped, whole.mask, whole.candidates)

    def _read(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """What candidates are found by: where the nodes are, and what else the model reads of them."""
        pos, x = (None if rows is None else rows.float() for rows in (batch.pos, batch.x))
        mean, std = self.config.get("x_mean"), self.config.get("x_std")
        if x is not None and mean is not None and std is not None:
            x = (x - x.new_tensor(mean)) / x.new_tensor(std)
        where = pos if self.config["pos_channels"] else x
        if where is None:
            raise GLNError(f"{self.path} finds candidates by what the nodes have none of.")
        return where, where[..., :0] if x is None or not self.config["in_channels"] else x

    def _run(self, graph: str, given: dict[str, Tensor | None], steps: int | None) -> dict[str, Tensor]:
        """What the graph says after the first ``steps``, ``[steps, …]``."""
        session, feed = self.sessions[graph], dict[str, np.ndarray]()
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
        return {name: torch.from_numpy(values)[:steps] for name, values in zip(names, found, strict=True)}

    def _output(self, found: dict[str, Tensor], mask: Tensor, candidates: Tensor | None) -> StructureOutput:
        """From probabilities ``[steps, …]`` back to the scores that everything else reads."""
        scores: dict[str, Any] = {"logits": found["probability"].logit(eps=1e-12).unbind(0)}
        for name, put in (("types", "types"), ("weights", "weights"), ("nodes", "node_types")):
            scores[name] = found[put].log().unbind(0) if put in found else None
        directed = kinds_of(self).directed
        return StructureOutput(**scores, states=(), mask=mask, candidates=candidates, directed=directed)


def load_onnx(path: Path) -> OnnxModel:
    """The model in ``path``, either of its two files; the other is read if it lies beside it."""
    whole = path.with_name(path.name.replace(LISTED, SUFFIX))
    listed = path.with_name(whole.name.removesuffix(SUFFIX) + LISTED)
    return OnnxModel(*(file for file in (whole, listed) if file == path or file.is_file()))


def lists_of(pairs: ListedPairs) -> dict[str, Tensor]:
    """The lists that a graph of candidates takes, of ``m ≥ 1`` pairs and ``n`` nodes; ``m`` stands where there is none.

    ==========  ==============  ===================================================================
    ``ends``    ``[2, m]``      source and target of every pair
    ``back``    ``[m]``         where the pair ``j → i`` of every ``i → j`` is
    ``slots``   ``[n, ≥ 4]``    where the pairs of every node are
    ``third``   ``[m, ≥ 4]``    of every pair ``ij`` and every pair ``ik`` in the row of ``i``: where ``jk`` is
    ==========  ==============  ===================================================================
    """
    (source, target), nodes = pairs.ends, len(pairs.start) - 1
    if not len(source):  # one pair that nobody reads, as not every runtime multiplies nothing
        loop, none = source.new_zeros(2, 1), source.new_ones(nodes + 1, LEAST_SLOTS)
        return {"ends": loop, "back": loop[0], "slots": none[1:], "third": none[:1]}
    count, width = len(source), max(pairs.longest, LEAST_SLOTS)
    if count * width > MOST_THIRDS:
        raise GLNError(
            f"{nodes:,} nodes with {count:,} candidate pairs are too many for an ONNX file; "
            "use the model it was exported from."
        )
    slots = pairs.start[:-1, None] + torch.arange(width)
    slots = slots.where(slots < pairs.start[1:, None], count)
    row, key = slots[source], source * nodes + target  # of every ij the pairs ik; ascending
    wanted = target[:, None] * nodes + target[row.clamp(max=count - 1)]
    jk = torch.searchsorted(key, wanted).clamp(max=count - 1)
    third = jk.where((row < count) & (key[jk] == wanted), count)
    return {"ends": pairs.ends, "back": pairs.back, "slots": slots, "third": third}


def open_graph(path: Path) -> tuple[Any, Facts, str]:
    """A session of onnxruntime, the facts in the file, and what it scores; no code of the file runs, and no other file
    is read.
    """
    ort, data = needed(*RUNTIME), read_whole(path, MOST_BYTES)
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what is wrong, we say
    options.intra_op_num_threads = torch.get_num_threads()
    # Without a second attempt, which it announces in several lines of its own.
    session = speaking(
        path, ort.InferenceSession, data, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    words = speaking(path, lambda: session.get_modelmeta().custom_metadata_map)
    check_format(words.get("gln.format"), FORMAT, path, "a model written by gln export")
    facts = as_kind(parse_facts(words.get("gln.facts", ""), path), Said, path)
    check_threshold(facts["threshold"], path)
    graph = ALL_PAIRS if words.get("gln.graph") == ALL_PAIRS else CANDIDATES
    return session, cast(Facts, facts), graph


def speaking(path: Path, call: Any, *given: Any, **named: Any) -> Any:
    """What ``call`` of onnxruntime returns; an error of its own becomes a sentence."""
    try:
        return call(*given, **named)
    except Exception as error:  # its errors have no class in common
        reason = " ".join(str(error).split())[:160]
        raise GLNError(f"{path} cannot be run by onnxruntime ({reason}); export the model again.") from None

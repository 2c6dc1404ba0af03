"""What is fuzzed: a good file of every format, how it is changed, and what reads it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from gln.adapters.onnx import export
from gln.baselines import Neighbours, save_baseline
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import check_graph
from gln.graphs.record import Graph
from gln.inference.generate import generate_graphs
from gln.inference.predict import predict_graphs
from gln.io import ReadOptions, read_items
from gln.models import GLN, GraphFlow, PaperGLN
from gln.models.chain import Sampling
from gln.models.flow import LARGEST
from gln.storage.facts import read_facts
from gln.storage.models import _sha256, load_model, load_weights, save, write_tensors
from gln.storage.runs import check_same, read_checkpoint, read_config, restore_optimizer, write_checkpoint
from gln.training.config import FREE, FitConfig
from gln.training.loop import fit
from gln.training.progress import resumed
from gln.viewing.reports import report_content
from gln.workflows.judge import RunReport
from gln.workflows.methods import load
from gln.workflows.recipe import Recipe
from gln.workflows.runs import learned_from, noting_data, read_run
from tests.io.samples import GOOD, PLY, STL_TEXT

SMALL: dict[str, Any] = {"width": 4, "pair_width": 4, "kernels": 2, "steps": 1}
POINTS = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
EDGES = b"source,target\na,b\nb,c\n"
KIND_EDGES = b"source,target,type,weight\na,b,near,0.5\nb,c,far,2\n"
BINARY_PLY = (
    PLY.split(b"end_header\n")[0].replace(b"ascii", b"binary_little_endian")
    + b"end_header\n"
    + bytes(48)
    + b"\x03\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"
)
WORDS = [
    b"-1",
    b"nan",
    b"1e999",
    b"4294967295",
    b"9" * 30,
    b"\n",
    b",",
    b'"',
    b"<",
    b"[" * 5000,
    b"1_0",
    b"\xff",
]
WORDS += [b"'=1", b"\x1b[2J", b"0", b"\x00", b"65536", b"inf", b"1e-400", b" ", b"\t", b"\\ud800"]
# In place of a value of JSON.
VALUES: list[Any] = [
    None,
    True,
    False,
    "",
    "x",
    "\ud800",
    "a\0b",
    -1,
    0,
    1,
    2,
    10**5,
    10**9,
    10**30,
    0.5,
    -0.5,
    1e308,
]
VALUES += [[], {}, [1], ["a"], [[]], {"a": 1}, [[1, 2]], "GLN", "neighbours", "auto"]


def changed(rng: random.Random, data: bytes) -> bytes:
    """``data`` in which a few stretches are replaced, dropped, doubled or moved, or a few bits flipped."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        start = rng.randint(0, len(data))
        end = min(len(data), start + rng.choice([0, 1, 1, 2, 4, 20]))
        kind = rng.randrange(5)
        if kind == 0:
            insert = rng.randbytes(rng.randint(0, 4))
        elif kind == 1:
            insert = rng.choice(WORDS)
        elif kind == 2:
            insert = data[start:end] * 2
        elif kind == 3:
            other = rng.randint(0, len(data))
            insert = data[other : other + rng.randint(1, 40)]
        else:
            insert = bytes(byte ^ (1 << rng.randrange(8)) for byte in data[start:end])
        data = data[:start] + insert + data[end:]
    return data[: rng.randint(0, len(data))] if rng.random() < 0.05 else data


def changed_facts(rng: random.Random, value: Any) -> Any:
    """JSON in which a value is another, gone, or under another name."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice([1, 1, 2, 3])):
        places = list(_places(value))
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(["x", "steps", "format", ""])] = holder.pop(key)
        elif kind == 2 and isinstance(holder[key], int | float):
            larger = holder[key] * rng.choice([-1, 2, 10, 1000, 10**6, 0.5])
            holder[key] = larger if abs(larger) < 1e308 else 0  # we write no infinite numbers
        else:
            holder[key] = json.loads(json.dumps(rng.choice(VALUES)))
    return value


def _places(value: Any) -> Any:
    for key in (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from _places(value[key])


def read_nodes(rng: random.Random, place: Path, suffix: str, good: tuple[bytes, ...]) -> bool:
    """A file of nodes; a table sometimes has a table of edges beside it."""
    path, beside = place / f"fuzz{suffix}", place / f"fuzz.edges{suffix}"
    beside.unlink(missing_ok=True)
    data = rng.choice(good)
    if suffix == ".csv" and rng.random() < 0.5:
        beside.write_bytes(changed(rng, EDGES) if rng.random() < 0.7 else EDGES)
    path.write_bytes(changed(rng, data))
    bad: list[Any] = []
    count = 0
    for item in read_items([path], ReadOptions(), on_bad=bad.append):
        check_graph(item.graph)
        count += 1
    if any("\n" in str(one) for one in bad):
        raise AssertionError(f"two lines: {bad}")
    assert count or bad
    return count > 0


def read_kinds(rng: random.Random, place: Path) -> bool:
    """A table of edges with types, weights and directions, beside a table of nodes."""
    path, beside = place / "kinds.csv", place / "kinds.edges.csv"
    path.write_bytes(GOOD[".csv"])
    beside.write_bytes(changed(rng, KIND_EDGES))
    options = ReadOptions(types="type", weights="weight", directed=rng.random() < 0.5)
    bad: list[Any] = []
    found = [check_graph(item.graph) for item in read_items([path], options, on_bad=bad.append)]
    if any("\n" in str(one) for one in bad):
        raise AssertionError(f"two lines: {bad}")
    return bool(found)


def read_onnx(rng: random.Random, place: Path) -> bool:
    """An exported model, either of its files alone: changed bytes, or other values of its words."""
    name = rng.choice(sorted(BASE["onnx"]))
    path, data = place / name, BASE["onnx"][name]
    if rng.random() < 0.5:
        path.write_bytes(changed(rng, data))
    else:
        import onnx

        model = onnx.load_from_string(data)
        for word in model.metadata_props:
            if word.key == "gln.facts":
                word.value = json.dumps(changed_facts(rng, json.loads(word.value)))
        path.write_bytes(model.SerializeToString())
    try:
        predict_graphs(load(path), [Graph(5, pos=POINTS)])
    finally:
        path.unlink()
    return True


BASE: dict[str, dict[str, bytes]] = {}  # the files of good folders


def prepare(place: Path) -> None:
    """Make good folders: models, a checkpoint and a run."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    graphs = parse_family("delaunay:points=6").graphs(6)
    save(GLN(**SMALL), place / "GLN")
    save(GLN(**SMALL, in_channels=1, x_mean=[0.5], x_std=[2.0], shared=True, proposals=2), place / "scaled")
    save(PaperGLN(nodes=5, in_channels=2, width=2, steps=2), place / "PaperGLN")
    save_baseline(Neighbours().fit(graphs), place / "neighbours")
    run = place / "run"
    recipe = Recipe(ReadOptions(pos=("x", "y")), None, 0, "GLN:width=4", 2, {"model": "because"})
    with noting_data(run, ["data.csv"], None, 0, recipe):
        config = FitConfig(epochs=2, progress=False, accelerator="cpu")
        fit(GLN(**SMALL), graphs[:4], graphs[4:], run=run, config=config)
    names = ("config.json", "environment.json", "metrics.csv", "data.json", "recipe.json", "model.json")
    BASE["run"] = {name: (run / name).read_bytes() for name in names}
    path, (network, optimizer) = run / "checkpoint.safetensors", _network()
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    progress, weights = read_checkpoint(path).progress, network.state_dict()
    write_checkpoint(path, weights, weights, optimizer, progress)
    BASE["checkpoint"] = {path.name: path.read_bytes()}
    for name in ("GLN", "scaled", "PaperGLN", "neighbours"):
        BASE[name] = {
            file: (place / name / file).read_bytes() for file in ("model.json", "model.safetensors")
        }


def prepare_flow(place: Path) -> None:
    """A saved flow, which has learned how many nodes graphs have."""
    graphs = parse_family("delaunay:points=6").graphs(6)
    flow = GraphFlow(**SMALL)
    fit(flow, graphs[:4], graphs[4:], config=FitConfig(epochs=1, progress=False, accelerator="cpu"))
    save(flow, place / "GraphFlow")
    BASE["GraphFlow"] = {path.name: path.read_bytes() for path in (place / "GraphFlow").iterdir()}


def prepare_onnx(place: Path) -> None:
    """An exported model, which takes a while."""
    files = export(GLN(**SMALL), place / "good.onnx")
    BASE["onnx"] = {path.name: path.read_bytes() for path in files}
    for path in files:
        path.unlink()


def _network() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A network of two tensors: what a checkpoint is checked for does not depend on their number."""
    network = torch.nn.Linear(2, 1)
    return network, torch.optim.AdamW(network.parameters())


def read_model(rng: random.Random, place: Path) -> bool:
    """A saved model, changed; then it predicts."""
    folder = place / rng.choice(["GLN", "GLN", "scaled", "PaperGLN", "neighbours"])
    _change_model(rng, folder)
    model = load(folder)
    width = getattr(model, "config", {}).get("in_channels", 0)
    x = torch.ones(5, width) if 0 < width < 100 and folder.name == "scaled" else None
    predict_graphs(model, [Graph(5, pos=POINTS, **({} if x is None else {"x": x}))])
    return True


def read_flow(rng: random.Random, place: Path) -> bool:
    """A saved flow, changed; then it draws a graph in two steps, unless it has learned large ones."""
    _change_model(rng, place / "GraphFlow")
    flow: Any = load(place / "GraphFlow")
    known = ((flow.training_facts or {}).get("noise") or {}).get("sizes") or []
    if not any(60 < size <= LARGEST for pair in known for size in pair[:1]):
        generate_graphs(flow, 1, how=Sampling(2))
    return True


def _change_model(rng: random.Random, folder: Path) -> None:
    """Change its words, its weights, or the values of its words; the fingerprint may fit again."""
    words, weights = BASE[folder.name]["model.json"], BASE[folder.name]["model.safetensors"]
    kind = rng.randrange(3)
    if kind == 0:
        words = changed(rng, words)
    if kind == 1:
        weights = changed(rng, weights) if rng.random() < 0.5 else _relabelled(rng, weights)
    (folder / "model.safetensors").write_bytes(weights)
    if kind > 0:
        facts = json.loads(words)
        facts["weights_sha256"] = _sha256(folder / "model.safetensors")
        words = json.dumps(facts if kind == 1 else changed_facts(rng, facts)).encode()
    (folder / "model.json").write_bytes(words)


def _relabelled(rng: random.Random, weights: bytes) -> bytes:
    """Weights whose header has changed: names, types, shapes and offsets."""
    size = int.from_bytes(weights[:8], "little")
    header = json.dumps(changed_facts(rng, json.loads(weights[8 : 8 + size]))).encode()
    if rng.random() < 0.5:
        header = weights[8 : 8 + size].replace(b"F32", rng.choice([b"I32", b"F16", b"BOOL", b"F64", b"U8"]))
    return len(header).to_bytes(8, "little") + header + weights[8 + size :]


def read_state(rng: random.Random, place: Path) -> bool:
    """A checkpoint: changed bytes, or other values that are sealed again."""
    path = place / "run" / "checkpoint.safetensors"
    data = BASE["checkpoint"]["checkpoint.safetensors"]
    if rng.random() < 0.4:
        path.write_bytes(changed(rng, data))
    else:
        tensors = safetensors.torch.load(data)
        size = int.from_bytes(data[:8], "little")
        facts = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["gln"])
        del facts["sha256"]
        if rng.random() < 0.3:
            name = rng.choice(sorted(tensors))
            tensors[rng.choice([name, "best.x", "optimizer.x.step", "optimizer.99.step", "x"])] = rng.choice(
                [torch.zeros(2), torch.zeros(()), torch.zeros(2, dtype=torch.int64), tensors[name][..., None]]
            )
        found = changed_facts(rng, facts)
        write_tensors(path, tensors, found if isinstance(found, dict) else {})
    state, (network, optimizer) = read_checkpoint(path), _network()
    resumed(state.progress, path)
    load_weights(network, state.weights, path)
    restore_optimizer(optimizer, state.optimizer, path)
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return True


def read_run_folder(rng: random.Random, place: Path) -> bool:
    """A run folder in which one of the text files has changed; everything that reads it is asked."""
    run, files = place / "run", BASE["run"]
    name = rng.choice(sorted(files))
    for other, data in files.items():
        if not (run / other).exists() or (run / other).read_bytes() != data:
            (run / other).write_bytes(data)
    raw = name == "metrics.csv" or rng.random() < 0.4
    data = (
        changed(rng, files[name]) if raw else json.dumps(changed_facts(rng, json.loads(files[name]))).encode()
    )
    (run / name).write_bytes(data)
    read, config = 0, json.loads(files["config.json"])
    calls: list[Callable[[], Any]] = [
        lambda: json.dumps(report_content(RunReport(read_run(run)))),
        lambda: check_same(read_config(run / "config.json"), config, FREE),
        lambda: Recipe.load(run / "recipe.json"),
        lambda: learned_from(run),
        lambda: read_facts(run / "model.json"),
    ]
    if name == "model.json":
        calls.append(lambda: load_model(run))
    for call in calls:
        try:
            call()
            read += 1
        except GLNError as error:
            if "\n" in str(error):
                raise AssertionError(f"two lines: {error}") from None
    return read == len(calls)


_MORE = {".ply": (BINARY_PLY,), ".stl": (STL_TEXT,)}

#: By format: changes a file, reads it, and says whether it could be read.
TARGETS: dict[str, Callable[[random.Random, Path], bool]] = {
    suffix.removeprefix("."): partial(read_nodes, suffix=suffix, good=(data, *_MORE.get(suffix, ())))
    for suffix, data in GOOD.items()
    if suffix != ".jpeg"
}
TARGETS |= {"model": read_model, "checkpoint": read_state, "run": read_run_folder}
TARGETS |= {"kinds": read_kinds, "onnx": read_onnx, "flow": read_flow}
PREPARE: dict[str, Callable[[Path], None]] = {"onnx": prepare_onnx, "flow": prepare_flow}

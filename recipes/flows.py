"""Train and test generators on the graphs of the published tables.

    python recipes/flows.py train planar --run runs/planar --data ../shared/data/generation --minutes 8
    python recipes/flows.py sample planar --run runs/planar --keep runs/planar-samples --sampling-steps 50 100
    python recipes/flows.py test planar --run runs/planar --data ../shared/data/generation --samples 1024 \\
        --sampling-steps 1000 50 --stochasticity 25 50 100 --output results/flows/planar.json
    python recipes/flows.py fresh planar --data ../shared/data/generation --output results/flows/planar-fresh.json
    python recipes/flows.py compare sbm --data ../shared/data/generation    # the family with the published graphs

Repeat ``train`` to go on: a run stops after so many minutes and continues where it stopped; with ``--shorten`` it
begins with as many steps as fit in these minutes, so that its learning rate has fallen by then. ``--begin MODEL``
begins a run with the weights of another. Without ``--data``, the graphs are drawn from the family of that name, as many
as the tables use, or ``--graphs``.

``test`` samples and scores; with ``--keep FOLDER`` the samples stay, and are read from there if they are there already,
so that they can be scored on another machine: ``sample`` only samples, begins no other setting after so many minutes,
and needs no repository. Whether a stochastic block model is valid is decided as published where
``--graph-tool`` names a Python that has graph-tool, and otherwise with blocks by Louvain's method, which the result
says. ``fresh`` scores new graphs of the family instead. ``cost`` measures a step on a CPU.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

import gln
from gln.evaluation import clustering, degrees, mmd
from gln.evaluation.generation import TABLES, VALID, fits_blocks, generation_scores
from gln.families import parse_family
from gln.graphs.check import make_graph
from gln.graphs.record import Graph
from gln.models.chain import Chain, Sampling
from gln.models.flow import GraphFlow
from gln.seeds import TEST_SEED
from gln.storage.provenance import check_source, write_result
from gln.storage.runs import read_config
from gln.training.processes import Interrupted
from timed import settings_in

SEED = 1  # of graphs drawn from a family, and of their split
COST = 12  # steps that are timed
EPOCH = 200  # steps from one validation to the next
AGAIN, SLOWER = 25, 1.02  # seconds to compile and record a second time; epochs differ a little
FLOWS: dict[str, dict[str, Any]] = {
    "planar": {"batch_size": 64, "steps": 15_000},
    "tree": {"batch_size": 64, "steps": 30_000},
    "sbm": {"batch_size": 12, "steps": 20_000},
    "community": {"batch_size": 64, "steps": 15_000},
}
FIT: dict[str, Any] = {"lr": 1.5e-3, "warmup": 0.02, "weight_decay": 1e-4, "progress": False}


def train(name: str, run: Path, data: Path | None, given: argparse.Namespace) -> None:
    """Train until the run is finished, or for so many minutes."""
    torch.set_float32_matmul_precision("high")
    graphs, val, _ = parts_of(name, data, given.graphs)
    settings = FLOWS[name]
    batch_size = given.batch_size or settings["batch_size"]
    whole = graphs * max(1, round(EPOCH * batch_size / len(graphs)))  # an epoch sees every graph many times
    epochs = max(1, round((given.steps or settings["steps"]) * batch_size / len(whole)))
    begun = (run / "config.json").exists()
    if begun and not given.steps:
        epochs = read_config(run / "config.json")["fit"]["epochs"]
    end = time.monotonic() + 60 * given.minutes
    timer = threading.Timer(60 * given.minutes, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    how = FIT | {"batch_size": batch_size, "accelerator": given.device}
    how |= {"compile": given.compile, **({"lr": given.lr} if given.lr else {})}
    model = settings.get("model", {}) | settings_in(given.set)
    try:
        if given.shorten and not begun:
            probe = gln.fit(new_flow(model, given.begin), whole, val, epochs=2, **how).history
            pace = probe[1]["seconds"] - probe[0]["seconds"]  # the first epoch compiles and records
            epochs = max(1, min(epochs, int((end - time.monotonic() - AGAIN) / (SLOWER * pace))))
            print(f"{name}: {1000 * pace / EPOCH:.1f} ms a step", flush=True)
        flow = new_flow(model, given.begin)
        weights = sum(weight.numel() for weight in flow.parameters())
        print(
            f"{name}: {len(graphs)} graphs, {weights:,} weights, {epochs} epochs of {EPOCH} steps", flush=True
        )
        result = gln.fit(flow, whole, val, run=run, resume=True, epochs=epochs, **how)
    except Interrupted:
        print(f"{name}: {progress_in(run)}; repeat the command to go on", flush=True)
        return
    finally:
        timer.cancel()
    last = result.history[-1]
    print(f"{name}: done after {last['step']} steps, {last['seconds'] / 60:.1f} minutes", flush=True)


def new_flow(settings: dict[str, Any], begin: str | None) -> GraphFlow:
    """A flow as training begins with it: with new weights, or with those of the model ``begin``."""
    torch.manual_seed(0)
    if begin is None:
        return GraphFlow(**settings)
    trained = gln.load(begin)
    flow = GraphFlow(**trained.config | settings)  # type: ignore[operator]
    flow.load_state_dict(trained.state_dict())
    return flow


def progress_in(run: Path) -> str:
    """How far a run is, in words."""
    lines = (run / "metrics.csv").read_text().splitlines() if (run / "metrics.csv").exists() else []
    return f"epoch {len(lines) - 1}: {lines[-1]}" if len(lines) > 1 else "in the first epoch"


def sample(name: str, run: Path, given: argparse.Namespace) -> None:
    """Sample with every number of steps and every stochasticity, and keep the samples."""
    torch.set_float32_matmul_precision("high")
    flow, end = flow_of(run, given.device), time.monotonic() + 60 * given.minutes
    for how in ways(flow, given):
        if time.monotonic() > end:
            print(f"{name}: the time is over before {in_a_name(how)}", flush=True)
            return
        made, facts = sampled(flow, how, given, name)
        edges = fmean(len(graph.edges_once()) for graph in made)
        print(f"{name}: {in_a_name(how)}: {facts}, {edges:.1f} edges a graph", flush=True)


def flow_of(run: Path, device: str) -> GraphFlow:
    flow = gln.load(run)
    assert isinstance(flow, GraphFlow)
    return flow.to(device)


def ways(flow: GraphFlow, given: argparse.Namespace) -> list[Sampling]:
    """All settings of sampling that are asked for."""
    return [
        Sampling(steps, eta, start, lateness, evenly).of(flow.config)
        for steps in given.sampling_steps or [None]
        for eta in given.stochasticity or [None]
        for start in given.start or [None]
        for lateness in given.lateness or [None]
        for evenly in (map(bool, given.evenly) if given.evenly else [None])
    ]


def test(name: str, run: Path, output: Path, given: argparse.Namespace) -> None:
    """Sample with every number of steps and every stochasticity, and score each."""
    check_source(output)
    train, val, final = parts_of(name, given.data, given.graphs)
    reference = {"test": final, "val": val}[given.against]
    flow = flow_of(run, given.device)
    rows: list[dict[str, Any]] = []
    for how in ways(flow, given):
        made, facts = sampled(flow, how, given, name)
        row = {**vars(how), **facts, **scored(name, train, reference, made, given.graph_tool)}
        print(f"{name}: {in_a_name(how)}: {in_words(row)}", flush=True)
        rows.append(row)
    facts = {
        "family": name,
        "published": given.data is not None,
        "against": given.against,
        "train_graphs": len(train),
        "samples": given.samples * len(given.seed),
        "model": flow.config,
        "training": {key: flow.training_facts[key] for key in ("epoch", "val_iou", "seed")},  # type: ignore[index]
        "training_minutes": minutes_of(run),
        "batch_size": given.batch_size or 256,
    }
    write_result(output, command(), given.seed[0], facts | {"settings": rows})


def fresh(name: str, output: Path, given: argparse.Namespace) -> None:
    """The scores of new graphs of the family: what a perfect generator would reach."""
    check_source(output)
    train, val, final = parts_of(name, given.data, given.graphs)
    family = parse_family(name)
    made = [
        Graph(graph.num_nodes, edge_index=graph.edge_index)
        for graph in family.graphs(given.samples, TEST_SEED)
    ]
    reference = {"test": final, "val": val}[given.against]
    row = scored(name, train, reference, made, given.graph_tool)
    own = scored(name, train[:0], reference, train, given.graph_tool) if name in VALID else {}
    print(f"{name}: fresh graphs of the family: {in_words(row)}", flush=True)
    print(f"{name}: valid training graphs {own.get('valid', 1):.4f}", flush=True)
    facts = {"family": name, "against": given.against, "samples": given.samples, "fresh": row}
    write_result(output, command(), TEST_SEED, facts | {"training_graphs_valid": own.get("valid")})


def compare(name: str, data: Path) -> None:
    """How the family differs from the published graphs: means of a few statistics, and how sure they are."""
    ours = parse_family(name).graphs(2000, TEST_SEED)
    theirs = [graph for part in parts_of(name, data) for graph in part]
    for what, measure in {
        "nodes": lambda graphs: [graph.num_nodes for graph in graphs],
        "edges": lambda graphs: [graph.num_edges / 2 for graph in graphs],
        "degree": lambda graphs: [float(each.double().mean()) for each in degrees(graphs)],
        "spread of degrees": lambda graphs: [float(each.double().std()) for each in degrees(graphs)],
        "highest degree": lambda graphs: [int(each.max()) for each in degrees(graphs)],
        "clustering": lambda graphs: [float(each.mean()) for each in clustering(graphs)],
    }.items():
        one, two = (np.array(measure(graphs), dtype=float) for graphs in (ours, theirs))
        sure = (one.var() / len(one) + two.var() / len(two)) ** 0.5
        apart = abs(one.mean() - two.mean()) / sure if sure else 0.0
        print(
            f"{name}: {what:<18} family {one.mean():9.4f}  published {two.mean():9.4f}  {apart:.1f} σ apart"
        )


def sampled(
    flow: GraphFlow, how: Sampling, given: argparse.Namespace, name: str
) -> tuple[list[Graph], dict[str, Any]]:
    """Samples of every seed, and how long they took on what, kept or from where they were kept."""
    found = [sampled_with(flow, how, given, name, seed) for seed in given.seed]
    return [graph for made, _, _ in found for graph in made], {
        "seconds": sum(seconds for _, seconds, _ in found),
        "sampled_on": found[0][2],
    }


def sampled_with(
    flow: GraphFlow, how: Sampling, given: argparse.Namespace, name: str, seed: int
) -> tuple[list[Graph], float, str]:
    kept = given.keep and given.keep / f"{name}-{in_a_name(how)}-{seed}.npz"
    weights = hashlib.sha256(
        b"".join(w.numpy(force=True).tobytes() for w in flow.state_dict().values())
    ).hexdigest()
    if kept and kept.exists():
        with np.load(kept) as arrays:
            made, facts = (
                published(kept),
                {key: arrays[key] for key in ("seconds", "device", "weights") if key in arrays},
            )
        if len(made) != given.samples or str(facts.get("weights", weights)) != weights:
            sys.exit(
                f"{kept} holds {len(made)} graphs, perhaps of other weights; expected {given.samples} of these."
            )
        return made, float(facts["seconds"]), str(facts["device"])
    start = time.perf_counter()
    made = flow.sampled(given.samples, seed, how=how, batch_size=given.batch_size or 256)
    seconds = time.perf_counter() - start
    on_gpu = flow.marginal.is_cuda
    device = torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    if kept:
        given.keep.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, seconds=seconds, device=device, weights=weights, **arrays_of(made))
    return made, seconds, device


def in_a_name(how: Sampling) -> str:
    """Settings of sampling in the name of a file: steps, stochasticity, start, lateness, evenly."""
    return "-".join(f"{value:g}" for value in vars(how).values())


def cost(name: str, run: Path, output: Path) -> None:
    """How long one step takes on a CPU, in seconds of one core, which other programs do not change."""
    check_source(output)
    flow, rows = flow_of(run, "cpu"), []
    for count in (1, 8):
        chain = Chain(flow, Sampling(1000).of(flow.config), alike=True)
        nodes = [Graph(parts_of(name, None, 40)[0][0].num_nodes)] * count
        times = []
        with torch.no_grad():
            for _ in islice(chain.run(nodes, torch.Generator().manual_seed(0)), COST):
                times.append(time.process_time())
        seconds = float(np.median(np.diff(times[2:]))) / count  # what comes first is compiled
        print(
            f"{name}: {1000 * seconds:.0f} ms of a core for a step of a graph, {count} at a time", flush=True
        )
        rows.append({"graphs_at_a_time": count, "core_seconds_per_step_and_graph": seconds})
    write_result(output, command(), 0, {"family": name, "rows": rows})


def scored(
    name: str, train: list[Graph], reference: list[Graph], made: list[Graph], graph_tool: str | None
) -> dict[str, Any]:
    """All scores, with GraphRNN's kernels beside those of the tables."""
    start, valid = time.perf_counter(), VALID.get(name)
    by_tool = name == "sbm" and graph_tool is not None
    fit = valid_blocks(made, graph_tool) if by_tool and graph_tool else valid
    if not train:
        return {"valid": fmean(fit if isinstance(fit, list) else map(fit, made))}  # type: ignore[arg-type]
    scores = generation_scores(train, reference, made, fit)
    beside = mmd(reference, made, floor=train)
    return {
        **scores,
        "intervals": scores.intervals,
        "notes": scores.notes,
        "graphrnn": {**beside, "floor": beside.floor, "how": beside.summary},
        "blocks": ("graph-tool" if by_tool else "Louvain") if name == "sbm" else None,
        "scoring_seconds": time.perf_counter() - start,
    }


def valid_blocks(graphs: list[Graph], python: str) -> list[bool]:
    """The published test of stochastic block models, with blocks found by graph-tool in another Python."""
    script = Path(__file__).with_name("sbm_blocks.py")
    with tempfile.TemporaryDirectory() as folder:
        graph_file, block_file = Path(folder, "graphs.npz"), Path(folder, "blocks.npz")
        np.savez(graph_file, **arrays_of(graphs))
        apart = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([python, script, graph_file, block_file], check=True, env=apart)
        with np.load(block_file) as arrays:
            each = np.split(arrays["block"], np.cumsum([graph.num_nodes for graph in graphs])[:-1])
    return [fits_blocks(graph, block) for graph, block in zip(graphs, each, strict=True)]


def in_words(row: dict[str, Any]) -> str:
    """The scores of a row of results."""
    shares = ", ".join(
        f"{key} {row[key]:.4f}" for key in ("valid", "uniqueness", "novelty", "vun") if key in row
    )
    distances = " / ".join(f"{row[f'mmd_{key}']:.4f}" for key in TABLES)
    seconds = f", {row['seconds']:.0f} s" if row.get("seconds") else ""
    return f"{shares}; MMD² {distances}, ratio {row.get('mmd_ratio', float('nan')):.2f}{seconds}"


def minutes_of(run: Path) -> float | None:
    """How long the run trained."""
    lines = (run / "metrics.csv").read_text().splitlines() if (run / "metrics.csv").exists() else []
    if len(lines) < 2:
        return None
    return float(dict(zip(lines[0].split(","), lines[-1].split(","), strict=True))["seconds"]) / 60


def parts_of(
    name: str, data: Path | None, count: int | None = None
) -> tuple[list[Graph], list[Graph], list[Graph]]:
    """The graphs to train, validate and test on: the published ones, or others of the same family."""
    if data is not None and (data / f"{name}.npz").exists():
        return tuple(published(data / f"{name}.npz", part) for part in ("train", "val", "test"))  # type: ignore[return-value]
    family = parse_family(name)
    graphs = family.graphs(count or family.paper_count or 200, SEED)
    bare = [Graph(graph.num_nodes, edge_index=graph.edge_index) for graph in graphs]
    return gln.split(bare, SEED, val=family.val_share)


def published(path: Path, part: str = "") -> list[Graph]:
    """The graphs of a published split, from plain arrays: nodes of each, edges of each, and all edges, listed once."""
    prefix = f"{part}_" if part else ""
    with np.load(path) as arrays:
        nodes, counts, edges = (arrays[prefix + name] for name in ("nodes", "edge_count", "edges"))
    each = np.split(edges.astype(np.int64), np.cumsum(counts.astype(np.int64))[:-1])
    return [make_graph(edges=pairs, num_nodes=int(n)) for pairs, n in zip(each, nodes, strict=True)]


def arrays_of(graphs: list[Graph]) -> dict[str, np.ndarray]:
    """Graphs as :func:`published` reads them."""
    edges = [graph.edges_once() for graph in graphs]
    return {
        "nodes": np.array([graph.num_nodes for graph in graphs], dtype=np.int32),
        "edge_count": np.array([len(pairs) for pairs in edges], dtype=np.int32),
        "edges": np.concatenate(edges).astype(np.int16),  # no graph has 2¹⁵ nodes
    }


def command() -> str:
    """The command that is running."""
    return shlex.join(["python", *sys.argv])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["train", "sample", "test", "fresh", "compare", "cost"])
    parser.add_argument("name", choices=[*FLOWS])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--output", "-o", type=Path)
    parser.add_argument("--data", type=Path, help="folder with the published graphs")
    parser.add_argument(
        "--graphs", type=int, help="graphs to draw from the family, if there are no published ones"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--steps", type=int, help="of training in all")
    parser.add_argument(
        "--shorten", action="store_true", help="fewer steps of training if they take too long"
    )
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--begin", help="a model whose weights training begins with")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the model, such as late=True")
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--seed", type=int, nargs="*", default=[TEST_SEED], help="of the samples")
    parser.add_argument("--sampling-steps", type=int, nargs="*")
    parser.add_argument("--stochasticity", type=float, nargs="*")
    parser.add_argument("--start", type=float, nargs="*")
    parser.add_argument("--lateness", type=float, nargs="*")
    parser.add_argument("--evenly", type=int, nargs="*", help="1: draw evenly, 0: every pair alone")
    parser.add_argument("--against", choices=["test", "val"], default="test")
    parser.add_argument("--keep", type=Path, help="folder for the samples")
    parser.add_argument("--graph-tool", help="a Python that has graph-tool, such as /usr/bin/python3")
    given = parser.parse_args()
    if given.action == "train":
        train(given.name, given.run, given.data, given)
    elif given.action == "sample":
        sample(given.name, given.run, given)
    elif given.action == "test":
        test(given.name, given.run, given.output, given)
    elif given.action == "cost":
        cost(given.name, given.run, given.output)
    elif given.action == "fresh":
        fresh(given.name, given.output, given)
    else:
        compare(given.name, given.data)


if __name__ == "__main__":
    main()

"""The score that ``gln train`` prints beside one on data kept apart, for the kinds of data that users bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from tyro.conf import Suppress

from benchmarks.common import peer, threads, timed
from benchmarks.communities import Size
from benchmarks.communities import draw as draw_lfr
from gln.baselines.neighbours import load_rules
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import as_graph, make_graph
from gln.graphs.record import Graph
from gln.graphs.split import subgraph
from gln.inference.evaluate import evaluated
from gln.io import ReadOptions
from gln.training import FitConfig
from gln.workflows import silent
from gln.workflows.recipe import Recipe
from gln.workflows.train import train
from gln.workflows.training_data import find_data, read_labelled

MODEL = "GLN:width=16,pair_width=16,steps=2"
ALLOWED = 0.03  # the mean gap
CORTEX = 10_242  # vertices of a half
KEPT = 3  # graphs kept apart
DEGREE = 15  # mean, in LFR graphs

Draw = Callable[
    [int], tuple[list[Graph], list[Graph]]
]  # by seed: the graphs given to gln train, and those kept apart


@dataclass(frozen=True)
class Shape:
    """A kind of data, and how a user would train on it."""

    draw: Draw
    patches: int | None = None
    epochs: int = 20
    lr: float = 4e-3


def records(x: np.ndarray, kind: np.ndarray, seed: int) -> tuple[list[Graph], list[Graph]]:
    """Half of the records as one table, in which equal kinds are joined, and the other half as another."""
    order = np.random.default_rng(seed).permutation(len(kind))
    halves = np.array_split(order, 2)
    tables = [
        make_graph(x=x[rows], edges=np.argwhere(np.triu(kind[rows][:, None] == kind[rows], 1)))
        for rows in halves
    ]
    return [tables[0]], [tables[1]]


def table_of(name: str) -> Draw:
    """Records of a table of scikit-learn."""

    def draw(seed: int) -> tuple[list[Graph], list[Graph]]:
        x, kind = peer("sklearn.datasets", f"load_{name}")(return_X_y=True)
        return records(x, kind, seed)

    return draw


def meshes(count: int, alike: bool = True, vertices: int = 600) -> Draw:
    """Parts of the right half of a human cortex (fsaverage5, from nilearn), each around some vertex.

    Kept apart are as large parts of the left half: those at the same places, or anywhere, which may be folded more or
    less than the given ones.
    """

    def draw(seed: int) -> tuple[list[Graph], list[Graph]]:
        rng = np.random.default_rng(seed)
        places = rng.integers(CORTEX, size=count + KEPT)
        points = half_of_cortex("right")[0]
        centres = points[places[:count]] * [-1, 1, 1] if alike else half_of_cortex("left")[0][places[count:]]
        given = [part_of_cortex("right", points[place], vertices) for place in places[:count]]
        return given, [part_of_cortex("left", centre, vertices) for centre in centres]

    return draw


@cache
def half_of_cortex(side: str) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of the white surface."""
    spec = find_spec("nilearn")
    if spec is None or spec.origin is None:
        raise GLNError("The meshes need nilearn, which is not installed; pip install nilearn.")
    path = Path(spec.origin).parent / f"datasets/data/fsaverage5/white_{side}.gii.gz"
    points, faces = peer("nibabel", "load")(path).agg_data()
    return points, faces


def part_of_cortex(side: str, centre: np.ndarray, vertices: int) -> Graph:
    """The mesh on the vertices that are nearest to a point."""
    points, faces = half_of_cortex(side)
    near = np.argsort(np.linalg.norm(points - centre, axis=1), kind="stable")[:vertices]
    pairs = np.unique(
        np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), 1), axis=0
    )
    whole = make_graph(pos=points - centre, edges=pairs)
    return subgraph(whole, near)


def surfaces(count: int, points: int = 400) -> Draw:
    """Generated surfaces, each stretched and sheared in its own way, so that one says little about another."""

    def draw(seed: int) -> tuple[list[Graph], list[Graph]]:
        graphs = parse_family(f"surfaces:points={points},kind=torus").graphs(count + KEPT, seed=seed)
        return graphs[:count], graphs[count:]

    return draw


def communities(count: int) -> Draw:
    """LFR graphs of 250 nodes and mixing .1 to .3, as in the benchmark of communities."""

    def draw(seed: int) -> tuple[list[Graph], list[Graph]]:
        graphs = [as_graph(draw_lfr(Size(), DEGREE, number, seed)) for number in range(count + KEPT)]
        return graphs[:count], graphs[count:]

    return draw


SHAPES = {
    "wine": Shape(table_of("wine"), patches=30),
    "cancer": Shape(table_of("breast_cancer"), patches=30, epochs=12),
    "one mesh": Shape(meshes(1), patches=24, epochs=12),
    "three meshes": Shape(meshes(3), patches=24, epochs=4),
    "LFR communities": Shape(communities(10), patches=40, epochs=3),
    "one mesh, others elsewhere": Shape(meshes(1, alike=False), patches=24, epochs=12),
    "one surface, others stretched": Shape(surfaces(1), patches=24, epochs=12),
}


def run(
    seeds: int = 10,
    seed: int = 0,
    only: tuple[str, ...] = (),
    shapes: Annotated[dict[str, Shape] | None, Suppress] = None,
) -> dict[str, Any]:
    """F1 on the test part as ``gln train`` prints it, against F1 on whole graphs kept apart, over several seeds.

    The best of the two rules stands beside the model in both. ``inside`` is how often the score on the data kept apart
    lies in the printed interval.

    Args:
        seeds: trainings per kind of data.
        seed: the first of them.
        only: the kinds of data; all if omitted.
    """
    chosen = {name: shape for name, shape in (shapes or SHAPES).items() if not only or name in only}
    if seeds < 1 or not chosen:
        raise GLNError(f"Got seeds={seeds} and {len(chosen)} kinds of data; expected at least 1 of each.")
    rows = []
    with threads(1):
        for name, shape in chosen.items():
            tries = [_try(shape, number) for number in range(seed, seed + seeds)]
            gaps = [one["printed"] - one["kept"] for one in tries]
            rows.append(
                {
                    "data": name,
                    **{key: fmean(one[key] for one in tries) for key in ("printed", "kept")},
                    "gap": fmean(gaps),
                    "largest_gap": max(gaps, key=abs),
                    **{
                        key: fmean(one[key] for one in tries)
                        for key in ("inside", "rule", "kept_rule", "seconds")
                    },
                    "tries": tries,
                }
            )
            print(name, {key: value for key, value in rows[-1].items() if key != "tries"}, flush=True)
    settings = {"model": MODEL, "seeds": seeds, "seed": seed, "allowed_gap": ALLOWED}
    return {"name": "honest-scores", "rows": rows, "settings": settings}


def _try(shape: Shape, seed: int) -> dict[str, Any]:
    given, kept = shape.draw(seed)
    config = FitConfig(
        epochs=shape.epochs, lr=shape.lr, seed=seed, accelerator="cpu", progress=False, batch_size=10
    )
    with TemporaryDirectory() as folder:
        write_tables(Path(folder) / "data", given)
        trained, seconds = timed(
            lambda: train(
                [f"{folder}/data"],
                Path(folder) / "run",
                Recipe(ReadOptions(), shape.patches, config.seed, MODEL, config.batch_size, turned=None),
                config,
                say=silent,
                skip=silent,
                tell=silent,
                losses={"edge": "plain"},
            )
        )
        write_tables(Path(folder) / "kept", kept)
        apart = read_labelled(find_data([f"{folder}/kept"]), ReadOptions(), silent, silent)
        judged = trained.judged
        outside = evaluated(trained.method, apart, rules=load_rules(f"{folder}/run"))[2]
    printed, (low, high) = judged.scores, judged.scores.intervals["dice"]
    return {
        "seed": seed,
        "printed": printed["dice"],
        "interval": [low, high],
        "kept": outside["dice"],
        "inside": float(low <= outside["dice"] <= high),
        "rule": max(scores["dice"] for scores in printed.rules.values()),
        "kept_rule": max(scores["dice"] for scores in outside.rules.values()),
        "seconds": seconds,
    }


def write_tables(folder: Path, graphs: list[Graph]) -> None:
    """The graphs as a table of nodes and a table of edges, as a user would give them."""
    folder.mkdir()
    pos, x = graphs[0].widths
    columns = [f"pos_{number}" for number in range(pos)] + [f"c{number}" for number in range(x)]
    nodes, edges = [",".join(["graph", *columns])], ["graph,source,target"]
    for number, graph in enumerate(graphs):
        values = np.column_stack([rows.numpy() for rows in graph.rows().values()])
        nodes += [",".join([f"g{number}", *(f"{value:.7g}" for value in row)]) for row in values.tolist()]
        edges += [f"g{number},{i},{j}" for i, j in graph.edges_once().tolist()]
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")

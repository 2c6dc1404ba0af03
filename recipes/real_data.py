"""Write the real inputs of the guides, and measure models on them.

    python recipes/real_data.py write molecules data/molecules
    gln train data/molecules/train -o runs/molecules --epochs 5
    python recipes/real_data.py measure molecules data/molecules --run runs/molecules --output real-molecules.json

All inputs come from packages on PyPI: molecules in rdkit, cortical surfaces in nilearn, a scanned bunny in pymeshfix,
photographs and handwritten digits in scikit-learn,
coins in scikit-image. Test data are never trained on.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import ndimage
from torch_geometric.data import Data
from tyro.conf import Positional

import gln
from gln.baselines.neighbours import Neighbours
from gln.errors import GLNError
from gln.evaluation import adjusted_rand
from gln.evaluation.statistics import component_labels
from gln.files import write_atomically
from gln.inference.choice import AS_TRAINED
from gln.io import ReadOptions, find_files, read_items
from gln.io.molecules import ELEMENTS
from gln.io.ply import parse_ply
from gln.models.candidates import SMALL
from gln.storage.provenance import check_source, write_result
from gln.workflows.judge import evaluate_on
from gln.workflows.methods import options_for
from gln.workflows.recipe import neighbour_ranks
from shared import command, run_command

SEED = 0
LARGEST = 40  # atoms per molecule, hydrogen included
TEST_MOLECULES = 200
DIGITS_PER_TABLE, KINDS, TRAIN_ROWS, TEST_TABLES = 20, 4, 1200, 100
BUNNY_VERTICES = 10_000
PHOTO_SIZE = 96  # pixels along the longer side
THRESHOLDS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9998)
DRAWN = (None, 0.9998)  # None: average linkage at the model's own threshold
SPECK = 100  # pixels: what is smaller is no coin
COIN_SIZES, SCALES = (96, 384), (1, 10, 30, 100, 200, 300, 500, 1000)


def write_molecules(folder: Path, count: int | None) -> None:
    """Molecules of the NCI collection with all hydrogens, placed by ETKDG; and 47 drugs, placed by another program."""
    chem, config = need("rdkit", "rdkit.Chem"), need("rdkit", "rdkit.RDConfig")
    molecules = embedded(Path(config.RDDataDir, "NCI/first_5K.smi"))
    parts = {"train/nci.sdf": 500 if count is None else count, "test/nci.sdf": TEST_MOLECULES}
    for name, size in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with chem.SDWriter(str(folder / name)) as writer:
            writer.SetKekulize(False)  # aromatic bonds say so
            for _ in range(min(size, parts["train/nci.sdf"])):
                last = next(molecules)
                writer.write(last)
    drugs = Path(config.RDContribDir, "Fastcluster/testdata/cdk2.sdf")
    write_atomically(folder / "test/cdk2.sdf", drugs.read_bytes())
    write_atomically(folder / "new.xyz", chem.MolToXYZBlock(last).encode())


def embedded(smiles: Path) -> Iterator[Any]:
    """The distinct molecules of the list, in order, placed in space; those that cannot be placed are left out."""
    chem, place = need("rdkit", "rdkit.Chem"), need("rdkit", "rdkit.Chem.AllChem")
    need("rdkit", "rdkit.RDLogger").DisableLog("rdApp.*")
    seen = set()
    for text in smiles.read_text().split()[::2]:
        molecule = chem.MolFromSmiles(text)
        name = None if molecule is None or "." in text else chem.MolToSmiles(molecule)
        if name is None or name in seen:
            continue
        seen.add(name)
        molecule = chem.AddHs(molecule)
        if 3 <= molecule.GetNumAtoms() <= LARGEST and place.EmbedMolecule(molecule, randomSeed=SEED) == 0:
            yield molecule


def write_kinds(folder: Path, count: int | None) -> None:
    """The same molecules as tables, with what chemistry says of their bonds and atoms.

    A bond has its order as ``type``, its stiffness in the force field MMFF94 (millidyne per ångström) as ``weight``,
    and a ``direction`` from the atom with the higher Gasteiger charge to the other, both if these differ by less than
    0.02; an atom has its formal ``charge``.
    """
    config, place = need("rdkit", "rdkit.RDConfig"), need("rdkit", "rdkit.Chem.AllChem")
    molecules = embedded(Path(config.RDDataDir, "NCI/first_5K.smi"))
    for name, size in {"train": 500 if count is None else count, "test": TEST_MOLECULES}.items():
        atoms, bonds, done = [], [], 0
        while done < min(size, 500 if count is None else count):
            molecule = next(molecules)
            field = place.MMFFGetMoleculeProperties(molecule)
            place.ComputeGasteigerCharges(molecule)
            partial = [atom.GetDoubleProp("_GasteigerCharge") for atom in molecule.GetAtoms()]
            if field is None or not np.isfinite(partial).all():
                continue
            where = molecule.GetConformer().GetPositions().round(4).tolist()
            for atom, xyz in zip(molecule.GetAtoms(), where, strict=True):
                symbol = atom.GetSymbol()
                one_hot = [int(symbol == element) for element in ELEMENTS]
                row = [done, atom.GetIdx(), *xyz, *one_hot, int(symbol not in ELEMENTS)]
                atoms.append([*row, atom.GetFormalCharge()])
            for bond in molecule.GetBonds():
                ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
                apart = partial[ends[0]] - partial[ends[1]]
                way = "both" if abs(apart) < 0.02 else "forward" if apart > 0 else "backward"
                _, stiffness, _ = field.GetMMFFBondStretchParams(molecule, *ends)
                bonds.append([done, *ends, str(bond.GetBondType()).lower(), f"{stiffness:.4g}", way])
            done += 1
        names = ["graph", "id", "x", "y", "z", *ELEMENTS, "other", "charge"]
        header = ["graph", "source", "target", "type", "weight", "direction"]
        write_csv(folder / name / "atoms.csv", [names, *atoms])
        write_csv(folder / name / "atoms.edges.csv", [header, *bonds])


def write_meshes(folder: Path, count: int | None) -> None:
    """The right half of a human cortex to train on; the left half and a scanned bunny to test on."""
    nibabel, data = need("nilearn", "nibabel"), package_folder("nilearn") / "datasets/data/fsaverage5"
    for part, side in (("train", "right"), ("test", "left")):
        for surface in ("pial", "white"):
            mesh = nibabel.load(data / f"{surface}_{side}.gii.gz").agg_data()
            write_off(folder / part / f"{surface}_{side}.off", *mesh, count)
    bunny = package_folder("pymeshfix") / "examples/StanfordBunny.ply"
    mesh = parse_ply(bunny.read_bytes())
    write_off(
        folder / "test/bunny.off", mesh.points, mesh.faces[0], min(BUNNY_VERTICES, count or BUNNY_VERTICES)
    )


def write_off(path: Path, vertices: np.ndarray, faces: np.ndarray, count: int | None) -> None:
    """Write a mesh as OFF: only the ``count`` vertices nearest to the first, if given, and the faces among them."""
    distance = np.linalg.norm(vertices - vertices[0], axis=1)
    kept = np.sort(np.argsort(distance, kind="stable")[:count])
    number = np.full(len(vertices), -1)
    number[kept] = np.arange(len(kept))
    inside = number[faces][(number[faces] >= 0).all(axis=1)]
    rows = [f"OFF\n{len(kept)} {len(inside)} 0"]
    rows += [f"{x:.7g} {y:.7g} {z:.7g}" for x, y, z in vertices[kept].tolist()]
    rows += [f"3 {a} {b} {c}" for a, b, c in inside.tolist()]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join(rows) + "\n").encode())


def write_photos(folder: Path, count: int | None) -> None:
    """The two photographs of scikit-learn."""
    image, datasets = need("pillow", "PIL.Image"), need("scikit-learn", "sklearn.datasets")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("china", "flower"):
        image.fromarray(datasets.load_sample_image(f"{name}.jpg")).save(folder / f"{name}.png")


def write_coins(folder: Path, count: int | None) -> None:
    """Photographed coins; their regions by the watershed that scikit-image's guide applies to this picture."""
    data, segment = need("scikit-image", "skimage.data"), need("scikit-image", "skimage.segmentation")
    image, filters = need("pillow", "PIL.Image"), need("scikit-image", "skimage.filters")
    coins = data.coins()
    markers = (coins < 30) + 2 * (coins > 150)
    parts, _ = ndimage.label(ndimage.binary_fill_holes(segment.watershed(filters.sobel(coins), markers) - 1))
    parts[np.bincount(parts.ravel())[parts] < SPECK] = 0
    folder.mkdir(parents=True, exist_ok=True)
    image.fromarray(coins).save(folder / "coins.png")
    image.fromarray(parts.astype(np.uint8)).save(folder / "coins.labels.png")


def write_digits(folder: Path, count: int | None) -> None:
    """Tables of handwritten digits in which equal digits are joined; train and test tables share no digit image."""
    pixels, digit = need("scikit-learn", "sklearn.datasets").load_digits(return_X_y=True)
    rng = np.random.default_rng(SEED)
    rows = {"train": np.arange(TRAIN_ROWS), "test": np.arange(TRAIN_ROWS, len(digit))}
    for part, tables in (("train", 600 if count is None else count), ("test", TEST_TABLES)):
        nodes: list[list[Any]] = [["graph", "id", *(f"p{number}" for number in range(pixels.shape[1]))]]
        edges: list[list[Any]] = [["graph", "source", "target"]]
        for table in range(tables):
            kinds = rng.choice(10, KINDS, replace=False)
            drawn = rng.choice(rows[part][np.isin(digit[rows[part]], kinds)], DIGITS_PER_TABLE, replace=False)
            nodes += [[table, row, *(pixels[row] / 16)] for row in drawn]
            edges += [[table, a, b] for i, a in enumerate(drawn) for b in drawn[:i] if digit[a] == digit[b]]
        for name, content in (("nodes", nodes), ("edges", edges)):
            write_csv(folder / part / f"{name}.csv", content)


def write_csv(path: Path, rows: list[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


Name = Literal["molecules", "kinds", "meshes", "photos", "coins", "digits"]
WRITERS = {
    "molecules": write_molecules,
    "kinds": write_kinds,
    "meshes": write_meshes,
    "photos": write_photos,
    "coins": write_coins,
    "digits": write_digits,
}


def write(name: Positional[Name], folder: Positional[Path], count: int | None = None) -> None:
    """Write the inputs: all of them, or ``count`` training molecules or tables, or vertices per mesh."""
    WRITERS[name](folder, count)


def measure(name: Positional[Name], folder: Positional[Path], run: str, output: Path) -> None:
    """Measure a run or a shipped model on the test data; of kinds, FOLDER is the test files themselves."""
    check_source(output)
    model = gln.load(run)
    start = time.perf_counter()
    if name == "kinds":
        rows = kind_rows(run, folder)
    else:
        rows = {"photos": photo_rows, "coins": coin_rows}.get(name, scored_rows)(model, folder)
    facts = {"model": model.config, "training": model.training_facts, "rows": rows}
    facts["seconds"] = round(time.perf_counter() - start, 1)
    for row in rows:
        print(row, flush=True)
    write_result(output, command(), SEED, facts)


def kind_rows(run: str, files: Path) -> list[dict[str, Any]]:
    """All scores of a run that predicts kinds on test files, read as it has read its own, beside its simple rules."""
    options = options_for(run, ReadOptions())
    _, true, scores = evaluate_on(run, str(files), options, 1, 0, AS_TRAINED, False, print, print)
    row: dict[str, Any] = {"files": files.name, "graphs": len(true), **scores, "rules": scores.rules}
    for types in scores.tables:
        row["types"] = {"names": types.names, "confusion": types.confusion.tolist()}
        row["types"] |= {key: values.tolist() for key, values in types.scores().items()}
    return [row]


def scored_rows(model: torch.nn.Module, folder: Path) -> list[dict[str, Any]]:
    """Edge scores of the model on every test file, beside the F1 of three nearness rules."""
    train = graphs_in(folder / "train")
    rules = {rule: Neighbours(rule=rule).fit(train) for rule in ("knn", "mutual", "radius")}
    rows = []
    for path in find_files([folder / "test"]):
        if path.name == "edges.csv":
            continue
        true = graphs_in(path)
        start = time.perf_counter()
        scores = gln.edge_scores(true, gln.predict(model, true))
        seconds = round(time.perf_counter() - start, 2)
        row = {"file": path.name, "graphs": len(true), "nodes": sum(graph.num_nodes for graph in true)}
        row |= {key: float(value) for key, value in scores.items()} | {"seconds": seconds}
        for rule, fitted in rules.items():
            by_rule = gln.edge_scores(true, gln.predict(fitted, true))
            row[f"dice_{rule}"] = float(by_rule["dice"])
        if max(graph.num_nodes for graph in true) > SMALL:
            ranks = np.concatenate([neighbour_ranks(graph, model.candidates) for graph in true])
            row["candidate_recall"] = float((ranks <= model.candidates).mean())
        if path.suffix == ".sdf":
            row["dice_radii"] = float(gln.edge_scores(true, by_radii(path))["dice"])
        rows.append(row)
    return rows


def by_radii(path: Path) -> list[Data]:
    """The bonds that rdkit infers for an SDF file from the radii of the elements."""
    chem, rule = need("rdkit", "rdkit.Chem"), need("rdkit", "rdkit.Chem.rdDetermineBonds")
    graphs = []
    for molecule in chem.SDMolSupplier(str(path), removeHs=False, sanitize=False):
        bare = chem.MolFromXYZBlock(chem.MolToXYZBlock(molecule))
        rule.DetermineConnectivity(bare)
        bonds = [[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()] for bond in bare.GetBonds()]
        graphs.append(gln.make_graph(pos=bare.GetConformer().GetPositions(), edges=bonds))
    return graphs


def photo_rows(model: torch.nn.Module, folder: Path) -> list[dict[str, Any]]:
    """Regions at several thresholds, beside those from joining the same number of most similar neighbours."""
    rows = []
    for item in photos_in(folder):
        answer = gln.predict(model, item.graph, threshold=min(THRESHOLDS))
        grid = grid_pairs(item.graph.pos)
        change = (item.graph.x[grid[:, 0]] - item.graph.x[grid[:, 1]]).norm(dim=1)
        similar = grid[change.argsort(stable=True)]
        for threshold in THRESHOLDS:
            once = (answer.edge_index[0] < answer.edge_index[1]) & (answer.edge_prob >= threshold)
            edges = answer.edge_index[:, once].T
            row = {"file": item.name, "threshold": threshold, "joined": len(edges) / len(grid)}
            row |= region_facts(item.graph, edges)
            plain = region_facts(item.graph, similar[: len(edges)])
            rows.append(row | {f"plain_{key}": value for key, value in plain.items()})
        for threshold in (None, min(THRESHOLDS)):
            found = gln.clusters(gln.predict(model, item.graph, threshold=threshold), "linkage")
            row = {"file": item.name, "threshold": threshold or model.threshold, "method": "linkage"}
            rows.append(row | facts_of(item.graph, found))
    return rows


def coin_rows(model: torch.nn.Module, folder: Path) -> list[dict[str, Any]]:
    """The adjusted Rand index of regions at two sizes, beside Felzenszwalb's in scikit-image.

    Its settings are those of scikit-image's guide, and of a grid the ones that agree best with the truth.
    """
    felzenszwalb = need("scikit-image", "skimage.segmentation").felzenszwalb
    rows = []
    for size in COIN_SIZES:
        (item,) = read_items([folder / "coins.png"], ReadOptions(image_size=size))
        start = time.perf_counter()
        answer = gln.predict(model, item.graph)
        middle = time.perf_counter()
        ways = {"components": gln.clusters(answer, "components"), "linkage": gln.clusters(answer, "linkage")}
        row = {
            "image_size": size,
            "pixels": item.graph.num_nodes,
            "predict_seconds": round(middle - start, 2),
        }
        row["linkage_seconds"] = round(time.perf_counter() - middle, 2)
        columns, height = (item.graph.pos.max(dim=0).values + 1).long().tolist()
        grey = item.graph.x[:, 0].view(height, columns).numpy()
        settings = [
            {"scale": a, "sigma": b, "min_size": c} for a in SCALES for b in (0.0, 0.5, 0.8) for c in (20, 50)
        ]
        parts = [torch.from_numpy(felzenszwalb(grey, **one)).flatten().long() for one in settings]
        ways["felzenszwalb"] = parts[settings.index({"scale": 100, "sigma": 0.5, "min_size": 50})]
        for name, labels in ways.items():
            row |= {
                name: float(adjusted_rand([item.graph.region], [labels])),
                f"{name}_regions": len(labels.unique()),
            }
        row["felzenszwalb_best"] = max(float(adjusted_rand([item.graph.region], [part])) for part in parts)
        rows.append(row)
    return rows


def draw(folder: Positional[Path], run: str, output: Path) -> None:
    """The photographs beside their regions, each in its mean colour, by linkage and by components."""
    model = gln.load(run)
    items = photos_in(folder)
    figure = Figure(figsize=(10.5, 2.55 * len(items)), layout="constrained")
    axes = figure.subplots(len(items), 1 + len(DRAWN))
    for row, item in zip(axes, items, strict=True):
        for place, ax in enumerate(row):
            colour, title = item.graph.x, Path(item.name).stem
            if place:
                threshold = DRAWN[place - 1]
                graph = gln.predict(model, item.graph, threshold=threshold)
                region = gln.clusters(graph, "linkage" if threshold is None else "components")
                way = "linkage" if threshold is None else f"components at {threshold}"
                colour = mean_colours(region, colour)[region]
                title = f"{way}: {len(region.unique())} regions"
            columns, rows = (item.graph.pos.max(dim=0).values + 1).long().tolist()
            ax.imshow(colour.view(rows, columns, 3), interpolation="nearest")
            ax.set_title(title, fontsize=9)
            ax.set_axis_off()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110, facecolor="white")


def mean_colours(region: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
    """The mean colour of every region: ``[regions, 3]``."""
    size = region.bincount()
    return colour.new_zeros(len(size), 3).index_add(0, region, colour) / size[:, None]


def grid_pairs(pos: torch.Tensor) -> torch.Tensor:
    """All pairs ``[m, 2]`` of pixels that share a side, in an image listed row by row."""
    columns, rows = (pos.max(dim=0).values + 1).long().tolist()
    number = torch.arange(rows * columns).view(rows, columns)
    across = torch.stack([number[:, :-1], number[:, 1:]], dim=-1).flatten(0, 1)
    down = torch.stack([number[:-1], number[1:]], dim=-1).flatten(0, 1)
    return torch.cat([across, down])


def region_facts(image: Data, edges: torch.Tensor) -> dict[str, float]:
    """The number of regions, the share of pixels in the ten largest, and the share of colour variance explained."""
    return facts_of(image, component_labels([gln.make_graph(pos=image.pos, edges=edges)])[0])


def facts_of(image: Data, region: torch.Tensor) -> dict[str, float]:
    size = region.bincount()
    left = (image.x - mean_colours(region, image.x)[region]).square().sum() / (
        image.x - image.x.mean(dim=0)
    ).square().sum()
    ten = size.topk(min(10, len(size))).values.sum() / len(region)
    return {"regions": len(size), "in_ten_largest": float(ten), "colour_explained": float(1 - left)}


def graphs_in(path: Path) -> list[Data]:
    return [item.graph for item in read_items(find_files([path]))]


def photos_in(folder: Path) -> list[Any]:
    return list(read_items(find_files([folder]), ReadOptions(image_size=PHOTO_SIZE)))


def need(package: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise GLNError(f"This needs {package}, which is not installed; pip install {package}.") from None


def package_folder(package: str) -> Path:
    """Where a package is installed, without importing it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise GLNError(f"This needs {package}, which is not installed; pip install {package}.")
    return Path(spec.origin).parent


if __name__ == "__main__":
    run_command(__doc__, write, measure, draw)

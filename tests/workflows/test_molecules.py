"""From files of atoms to files of molecules, with a model whose probabilities are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from gln.decoding.valences import BONDS, ELEMENTS, STATES
from gln.errors import GLNError
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.inference.choice import Choice
from gln.io import ReadOptions, read_items
from gln.workflows.engines import in_this_process
from gln.workflows.forms import Chemistry, check_molecules, lone_charges
from gln.workflows.methods import options_for
from gln.workflows.predict_files import Job, predict_files
from gln.workflows.views import job_items, job_views

LENGTHS = {("C", "H"): (1.3, 1), ("H", "O"): (1.2, 1), ("C", "O"): (1.6, 2)}


class ByLength:
    """Says that near atoms are bonded; every C–O bond is double, so that an alcohol breaks the rules."""

    name = "by length"
    config: ClassVar = {"pos_channels": 3, "in_channels": 13, "edge_types": 4, "node_types": 20}
    threshold = 0.5

    def answer(self, points: Graph) -> Graph:
        symbols = [ELEMENTS[place] for place in points.x.argmax(1).tolist()]
        pairs, kinds = [], []
        for a in range(points.num_nodes):
            for b in range(a + 1, points.num_nodes):
                most, kind = LENGTHS.get(tuple(sorted((symbols[a], symbols[b]))), (0.0, 0))  # type: ignore[arg-type]
                if float((points.pos[a] - points.pos[b]).norm()) < most:
                    pairs.append([a, b])
                    kinds.append(kind - 1)
        found = make_graph(points.pos, points.x, pairs, edge_type=torch.tensor(kinds, dtype=torch.int64))
        found.edge_prob = torch.full((found.num_edges,), 0.98)
        likely = torch.tensor([0.9, 0.08, 0.01, 0.01])
        order = [[0, 1, 2, 3], [1, 0, 2, 3]]
        rows = [likely[order[kind]] for kind in found.edge_type.tolist()]
        found.edge_type_prob = torch.stack(rows) if rows else torch.zeros(0, 4)
        found.node_type_prob = torch.full((points.num_nodes, 20), 0.001)
        found.node_type_prob[:, 0] = 0.981
        return found

    predict = answer


FORMALDEHYDE = "4\nformaldehyde\nC 0 0 0\nO 0 1.2 0\nH .94 -.55 0\nH -.94 -.55 0\n"
METHANOL = "6\nmethanol\nC 0 0 0\nO 1.42 0 0\nH 1.75 .9 0\nH -.4 1.02 0\nH -.4 -.5 .9\nH -.4 -.5 -.9\n"
SALT = "4\nzinc and water\nZn 0 0 9\nO 0 0 0\nH .96 0 0\nH -.24 .93 0\n"
SAME = "3\ntwo at one place\nC 0 0 0\nC 0 0 .05\nO 0 0 1.2\n"
UNKNOWN = "1\nsodium\nNa 0 0 0\n"
ENDS = [[0, 1], [0, 2], [0, 3]]
OPTIONS = ReadOptions(elements=ELEMENTS, only_elements=True)

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def predicted(output: str = "out.sdf", **texts: str) -> Any:
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.xyz").write_text(text)
        said: list[str] = []
        job = Job(ByLength(), sorted(folder.iterdir()), tmp_path / output, OPTIONS, force=True)
        outcome = predict_files(job, in_this_process, said.append, said.append)
        return job, outcome, said

    return predicted


def test_a_folder_becomes_one_file_in_which_the_rules_are_kept(run: Run) -> None:
    job, outcome, said = run(
        a=FORMALDEHYDE, b=METHANOL, c=SAME, d=SALT, e=UNKNOWN, f="2\n\nXx 0 0 0\nC 0 0 1\n"
    )
    assert outcome.graphs == 3
    assert sorted(what.path.name for what in outcome.skipped) == ["c.xyz", "e.xyz", "f.xyz"]
    text = " ".join(map(str, said))
    assert "atoms 1 and 2 are at one place (0.05 Å apart)" in text
    assert "knows none of its elements: Na" in text
    assert "'Xx' is not a chemical element" in text
    read = list(read_items([job.output], ReadOptions(types="order")))
    orders = [[item.graph.edge_type_names[kind] for kind in item.graph.edge_type.tolist()] for item in read]
    assert [words.count("double") // 2 for words in orders] == [1, 0, 0]  # methanol's was put right
    assert [item.title for item in read] == ["formaldehyde", "methanol", "zinc and water"]
    assert "Zn: unknown to the model, left without bonds" in job.output.read_text()
    assert read[2].graph.edges_once().tolist() == [[1, 2], [1, 3]]


def test_rdkit_opens_all_of_it(run: Run, tmp_path: Path) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    job, _, _ = run(a=FORMALDEHYDE, b=METHANOL, d=SALT)
    found = [
        chem.MolToSmiles(chem.RemoveHs(each)) for each in chem.SDMolSupplier(str(job.output), removeHs=False)
    ]
    assert found == ["C=O", "CO", "O.[Zn]"]
    job, _, _ = run("out.smi", a=FORMALDEHYDE, b=METHANOL, d=SALT)
    assert [line.split("\t")[0] for line in job.output.read_text().splitlines()] == found


def test_a_molecule_of_several_pieces_is_one_record(run: Run) -> None:
    shifted = [line.split() for line in METHANOL.splitlines()[2:]]
    moved = "\n".join(f"{name} {float(x) + 20} {y} {z}" for name, x, y, z in shifted)
    both = "10\nboth\n" + "\n".join(FORMALDEHYDE.splitlines()[2:]) + "\n" + moved + "\n"
    job, outcome, _ = run(both=both)
    assert outcome.graphs == 1
    (read,) = read_items([job.output])
    assert read.graph.num_edges == 2 * (3 + 5)


def test_positions_in_another_unit_are_noticed(run: Run) -> None:
    rows = [line.split() for line in FORMALDEHYDE.splitlines()[2:]]
    bohr = "\n".join(
        " ".join([name, *(str(float(value) / 0.529) for value in where)]) for name, *where in rows
    )
    job, _, _ = run(bohr=f"4\nin bohr\n{bohr}\n", right=FORMALDEHYDE)
    assert job.output.read_text().count("no two atoms are within 1.75 Å") == 1


def test_a_page_of_it_shows_the_molecules_with_their_charges(run: Run, tmp_path: Path) -> None:
    job, _, _ = run(a=FORMALDEHYDE, c=SAME)
    (view,) = job_views(job, job_items(job, tmp_path / "page.html", lambda text: None))
    assert view.symbols == ["C", "O", "H", "H"]
    assert view.seen is not None
    assert sorted(view.seen.graph.edge_type.tolist()) == [0, 0, 1]
    assert list(view.seen.graph.node_type_names) == ["0"]


def test_what_has_too_many_atoms_is_refused_in_one_sentence(run: Run) -> None:
    rows = "\n".join(f"C {10 * place} 0 0" for place in range(10_001))
    _, outcome, _ = run(a=FORMALDEHYDE, large=f"10001\n\n{rows}\n")
    assert [str(what.reason) for what in outcome.skipped] == [
        "it has 10,001 atoms; molecules are written with at most 10,000, cut it into parts, or write a .csv."
    ]


def test_only_models_of_bonds_write_molecules() -> None:
    with pytest.raises(GLNError, match="delaunay does not predict bonds"):
        check_molecules("delaunay", {"config": {"pos_channels": 2}}, Choice())
    facts = {"config": ByLength.config}
    check_molecules("m", facts, Choice())
    with pytest.raises(GLNError, match="--threshold"):
        check_molecules("m", facts, Choice(threshold=0.9))


def test_a_model_by_orders_and_charges_of_files_writes_molecules_too() -> None:
    names = {"edge_type_names": ["double", "single"], "node_type_names": ["+1", "0"]}
    facts = {"config": {"pos_channels": 3, "in_channels": 11}, "training": {"names": names}}
    chemistry = Chemistry.of_facts(facts, "mine")
    assert chemistry.orders == (2, 1)
    assert [state.charge for state in chemistry.states] == [1, 0]
    assert chemistry.stated


def test_the_shipped_elements_are_read_by_a_model_that_knows_them(tmp_path: Path) -> None:
    import gln

    model = gln.GLN(**ByLength.config, width=8, pair_width=8, kernels=2, steps=1, lengths="absolute")
    gln.save(model, tmp_path / "m")
    options = options_for(str(tmp_path / "m"), ReadOptions())
    assert options.elements == ELEMENTS
    assert options.only_elements
    (tmp_path / "a.xyz").write_text(SALT)
    (item,) = read_items([tmp_path / "a.xyz"], options)
    assert item.graph.x.shape == (4, 13)
    assert item.graph.x.sum(1).tolist() == [0, 1, 1, 1]


def test_ions_of_metals_that_the_model_does_not_know_have_their_usual_charge() -> None:
    numbers = np.array([11, 12, 30, 6])  # Na, Mg, Zn, C
    assert lone_charges(numbers, np.array([False, False, False, True])).tolist() == [1, 2, 0, 0]


def test_names_are_those_that_files_use() -> None:
    assert BONDS == ("single", "double", "triple", "aromatic")
    assert STATES[:2] == ("0", "0 H1")
    assert STATES[5 * 3 + 2] == "shared H2"

"""What the model of molecules learns from: resonance forms share their labels, and files give back what was stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import gln

Chem = pytest.importorskip("rdkit.Chem")

from recipes.molecule_calls import keep, unpacked  # noqa: E402
from recipes.molecule_graphs import Epochs, Molecules, Store, beside, load, packed, unpacked_graphs  # noqa: E402
from recipes.molecule_labels import ELEMENTS, SHARED, UNIT, is_held_out, labels, stored, write  # noqa: E402
from recipes.molecules import MODEL, NODE_TYPES, Timed, judged  # noqa: E402


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("CC(=O)[O-]", "CC([O-])=O"),
        ("C[N+](=O)[O-]", "C[N+]([O-])=O"),
        ("NC(=[NH2+])NC", "[NH2+]=C(N)NC"),
        ("COP(=O)([O-])[O-]", "COP([O-])(=O)[O-]"),
        ("CCn1cc[n+](C)c1", "CC[n+]1ccn(C)c1"),
        ("CC(=O)C=C(C)[O-]", "CC([O-])=CC(C)=O"),
    ],
)
def test_resonance_forms_share_their_labels(one: str, two: str) -> None:
    first, second = (Chem.MolFromSmiles(word) for word in (one, two))
    skeletons = [Chem.MolFromSmiles(word) for word in (one, two)]
    for mol in skeletons:
        for atom in mol.GetAtoms():
            atom.SetNumExplicitHs(atom.GetTotalNumHs())
            atom.SetFormalCharge(0)
            atom.SetIsAromatic(False)
            atom.SetNoImplicit(True)
        for bond in mol.GetBonds():
            bond.SetBondType(Chem.BondType.SINGLE)
    # An order of atoms that knows nothing of charges and orders may exchange equal atoms, which have equal labels.
    sorted_labels = []
    for mol, skeleton in zip((first, second), skeletons, strict=True):
        rank = list(Chem.CanonicalRankAtoms(skeleton, breakTies=False))
        bonds, types, kinds = labels(mol)
        ends = sorted(
            (*sorted((rank[a], rank[b])), int(kind)) for (a, b), kind in zip(bonds, types, strict=True)
        )
        sorted_labels.append((ends, sorted(zip(rank, kinds.tolist(), strict=True))))
    assert sorted_labels[0] == sorted_labels[1]
    assert SHARED in labels(first)[2] // 5


def kept(tmp_path: Path, *words: str) -> Molecules:
    rng, parts = np.random.default_rng(0), []
    for word in words:
        bare = Chem.MolFromSmiles(word)
        places = rng.integers(-3000, 3000, (Chem.AddHs(bare).GetNumAtoms(), 3))
        parts.append(stored(word, bare, 1, places, test=True))
    write(parts, tmp_path / "some.npz.xz")
    return load([tmp_path / "some.npz.xz"])


@pytest.mark.parametrize("whole", [True, False])
def test_graphs_of_stored_conformers_are_labelled_as_the_molecules(tmp_path: Path, whole: bool) -> None:
    words = ("CC(=O)[O-]", "C[NH3+]", "c1ccsc1", "[H][H]", "N#Cc1cc(Br)ccc1B(O)O")
    data = kept(tmp_path, *words)
    everything = np.arange(len(words))
    graphs = data.graphs(everything, everything * 0.0 + whole, everything * 0.0, np.random.default_rng(0))
    for word, graph in zip(words, graphs, strict=True):
        mol = Chem.MolFromSmiles(word)
        mol = Chem.AddHs(mol) if whole else mol
        bonds, types, kinds = labels(mol)
        expected = {(*sorted(pair), kind) for pair, kind in zip(bonds.tolist(), types.tolist(), strict=True)}
        found = zip(graph.edge_index.T.tolist(), graph.edge_type.tolist(), strict=True)
        assert {(*sorted(pair), kind) for pair, kind in found} == expected
        assert graph.node_type.tolist() == kinds.tolist()
        assert [ELEMENTS[place] for place in graph.x.argmax(1)] == [
            atom.GetSymbol() for atom in mol.GetAtoms()
        ]
        assert torch.allclose((graph.pos / UNIT).round() * UNIT, graph.pos, atol=1e-4)


def test_two_molecules_beside_one_another_do_not_touch_and_lose_no_bond(tmp_path: Path) -> None:
    data = kept(tmp_path, "CCO", "C[NH3+]")
    graphs = data.graphs(np.arange(2), np.ones(2), np.zeros(2), np.random.default_rng(0))
    both = beside(graphs[0], graphs[1], np.random.default_rng(1))
    assert both.num_edges == sum(graph.num_edges for graph in graphs)
    first = graphs[0].num_nodes
    assert torch.cdist(both.pos[:first], both.pos[first:]).min() > 1.7
    assert torch.equal(both.pos[:first], graphs[0].pos)


def test_a_molecule_is_right_if_every_bond_and_atom_is(tmp_path: Path) -> None:
    data = kept(tmp_path, "CCO", "C[NH3+]", "c1ccsc1", "N#Cc1cc(Br)ccc1B(O)O")
    graphs = data.graphs(np.arange(4), np.ones(4), np.zeros(4), np.random.default_rng(0))

    class Knows(gln.GLN):
        """Says of every pair and atom what is true, except of one atom of the second graph."""

        def forward(self, batch, **more):  # type: ignore[override]
            output = super().forward(batch, **more)
            types = torch.nn.functional.one_hot(output.entries(batch.edge_type).clamp(min=0), 4)
            nodes = torch.nn.functional.one_hot(batch.node_type.clamp(min=0), NODE_TYPES)
            ion = (batch.sizes == 8).nonzero()
            nodes[ion, 0] = nodes[ion, 0].roll(1, -1)
            told = {
                "logits": 50.0 * output.target(batch.adj) - 20,
                "types": 20.0 * types,
                "nodes": 20.0 * nodes,
            }
            return replace(output, **{name: (values,) for name, values in told.items()})

    settings = MODEL | {"width": 8, "pair_width": 8, "steps": 1, "candidates": 30}
    rows = judged(Knows(**settings).eval(), graphs, batch_size=2)
    assert rows[:, 0].tolist() == [1, 0, 1, 1]
    assert rows[:, 1].tolist() == rows[:, 2].tolist() == [graph.num_edges for graph in graphs]
    assert (rows[:, 3] - rows[:, 4]).tolist() == [0, 1, 0, 0]
    assert (rows[:, 5] > 0.99).all()


def test_molecules_that_are_held_out_come_first_and_no_others_of_them_later() -> None:
    from recipes.molecule_conformers import held_out_first

    words = [f"{'C' * length}{end}" for length in range(2, 200) for end in ("O", "N", "F")]
    held = {word for word in words if is_held_out(Chem.MolFromSmiles(word))}
    assert 2 < len(held) < 60
    found = list(held_out_first(iter(words), 2))
    assert set(found[:2]) <= held
    assert held.isdisjoint(found[2:])
    assert held.isdisjoint(held_out_first(iter(words), 0))


def test_what_is_written_meanwhile_is_learned_in_a_later_epoch(tmp_path: Path) -> None:
    def more(number: int, *words: str) -> None:
        kept(tmp_path / "made", *words)
        (tmp_path / "made/some.npz.xz").rename(tmp_path / f"part-{number}.npz.xz")

    (tmp_path / "made").mkdir()
    more(0, "CCO", "CCC")
    store = Store([tmp_path])
    assert len(store.molecules()) == 2
    more(1, "CCO", "CCN", "CF")
    data = store.molecules()
    assert data.held_out.tolist() == [1, 1, 1, 1, 1]
    assert data.atoms.tolist() == [9, 11, 9, 10, 5]
    shares = [Store([tmp_path], share, 3).listed() for share in range(3)]
    assert sorted(path for some in shares for path in some) == store.listed()


def test_processes_make_epochs_of_what_is_learned_alone(tmp_path: Path) -> None:
    words = ("CC(=O)[O-]", "C[NH3+]", "c1ccsc1", "CF", "N#Cc1cc(Br)ccc1B(O)O")
    parts = []
    for word in words:
        bare = Chem.MolFromSmiles(word)
        places = np.random.default_rng(0).integers(-3000, 3000, (Chem.AddHs(bare).GetNumAtoms(), 3))
        parts.append(stored(word, bare, 1, places, test=word == "CF"))
    write(parts, tmp_path / "some.npz.xz")
    epochs = Epochs([tmp_path], most=30, shares=2)  # one of them has no file
    try:
        first, second = epochs(0), epochs(1)
    finally:
        epochs.close()
    assert epochs.conformers == 4
    assert 0 < len(second) <= 15
    fluorine = ELEMENTS.index("F")
    assert not any(graph.x[:, fluorine].any() for graph in [*first, *second])


def test_graphs_travel_between_processes_as_they_are(tmp_path: Path) -> None:
    data = kept(tmp_path, "CC(=O)[O-]", "C[NH3+]", "c1ccsc1", "[H][H]")
    graphs = data.graphs(np.arange(4), np.array([1, 1, 0, 1]), np.zeros(4), np.random.default_rng(0))
    graphs.append(beside(graphs[0], graphs[1], np.random.default_rng(1)))
    there = unpacked_graphs([packed(graphs[:2]), packed(graphs[2:])])
    assert len(there) == len(graphs)
    for one, two in zip(graphs, there, strict=True):
        assert one.num_nodes == two.num_nodes
        assert all(torch.equal(one[name], two[name]) for name in ("pos", "x", "node_type", "edge_type"))
        assert torch.equal(one.edge_index, two.edge_index)


def test_the_rate_of_learning_falls_over_all_calls_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = []
    for call in (1, 2, 3):
        times = {"first": (call - 1) / 3, "last": call / 3, "begun": 50.0, "seconds": 10.0}
        for name, value in times.items():
            monkeypatch.setattr(Timed, name, value)
        for now in (50.0, 55.0, 60.0, 70.0):
            monkeypatch.setattr("time.monotonic", lambda now=now: now)
            rates.append(Timed(lr=1.0, warmup=0.1).lr_at(0, 0, 1))
    assert rates[0] < 0.02
    assert rates[2:] == pytest.approx(sorted(rates[2:], reverse=True))
    assert rates[2] == rates[3] == rates[4]
    assert rates[6] == rates[8]
    assert rates[-1] == pytest.approx(0)


def test_the_state_of_a_training_travels(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    (run / "model/tensorboard").mkdir(parents=True)
    out.mkdir()
    for name in ("held-out.npz.xz", "model/checkpoint.safetensors", "model/tensorboard/events"):
        (run / name).write_text(name)
    keep(run, out)
    there = unpacked(out / "run.tar", tmp_path / "elsewhere")
    files = sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file())
    assert files == ["held-out.npz.xz", "model/checkpoint.safetensors"]
    (there / "held-out.npz.xz").write_text("newer")
    assert (unpacked(out / "run.tar", there) / "held-out.npz.xz").read_text() == "newer"
    assert not unpacked(tmp_path / "nothing.tar", tmp_path / "fresh").exists()

"""Molecules from probabilities: always valid, the best there is, and as sure as they say."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from gln.decoding import molecules
from gln.decoding.molecules import Decoded, decode
from gln.decoding.valences import (
    AROMATIC,
    NUMBER,
    STATES,
    SYMBOLS,
    State,
    allowed,
    doubles,
    parse_states,
    resonance_form,
)
from gln.errors import GLNError

ALL = parse_states(STATES)
FEW = parse_states(["0", "+1", "-1", "shared"])


def numbers(text: str) -> np.ndarray:
    return np.array([NUMBER[symbol] for symbol in text.split()])


def sure(
    elements: str,
    bonds: dict[tuple[int, int], int],
    states: dict[int, str] | None = None,
    likely: float = 0.97,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[State], np.ndarray]:
    """What :func:`decode` is given by a model that is sure of these bonds and states."""
    atoms = numbers(elements)
    pairs = np.array(list(itertools.combinations(range(len(atoms)), 2))).reshape(-1, 2)
    chances = np.full((len(pairs), 5), (1 - likely) / 4)
    for row, pair in zip(chances, pairs.tolist(), strict=True):
        row[bonds.get(tuple(pair), 0)] = likely
    chosen = np.full((len(atoms), len(STATES)), (1 - likely) / (len(STATES) - 1))
    for atom, row in enumerate(chosen):
        row[STATES.index((states or {}).get(atom, "0"))] = likely
    return atoms, pairs, chances, ALL, chosen


def random_case(seed: int, atoms: int, pairs: int, states: list[State]) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    every = np.array(list(itertools.combinations(range(atoms), 2)))
    some = every[np.sort(random.choice(len(every), min(pairs, len(every)), replace=False))]
    elements = random.choice(numbers("H C C N O S P Cl"), atoms)
    chances = random.dirichlet(np.full(5, 0.4), len(some))
    return elements, some, chances, states, random.dirichlet(np.full(len(states), 0.4), atoms)


def assert_valid(elements: np.ndarray, found: Decoded) -> None:
    """Every atom has as many bonds as its element and charge allow, in the orders that are written."""
    total, count = found.hydrogens.copy(), found.hydrogens.copy()
    np.add.at(total, found.bonds, found.orders[:, None])
    np.add.at(count, found.bonds, 1)
    for number, charge, orders, bonds in zip(elements, found.charges, total, count, strict=True):
        assert allowed(int(number), int(charge), int(orders), int(bonds))
    aromatic = found.types == AROMATIC
    assert (found.orders[~aromatic] == found.types[~aromatic]).all()
    assert np.isin(found.orders[aromatic], (1, 2)).all()


def cost(case: tuple[np.ndarray, ...], found: Decoded) -> float:
    """Minus the logarithm of the probability of all choices together."""
    _, pairs, chances, _, likely = case
    types = np.zeros(len(pairs), dtype=int)
    place = {tuple(pair): number for number, pair in enumerate(pairs.tolist())}
    for pair, kind in zip(found.bonds.tolist(), found.types, strict=True):
        types[place[tuple(pair)]] = kind
    chosen = [*chances[np.arange(len(pairs)), types], *likely[np.arange(len(likely)), found.states]]
    return float(-np.log(chosen).sum())


def best_by_trying(case: tuple[np.ndarray, ...]) -> float:
    """The least cost of all molecules that keep the rules: every choice of types, states and orders is tried."""
    elements, pairs, chances, states, likely = case
    best = np.inf
    for types in itertools.product(range(5), repeat=len(pairs)):
        spent = -np.log(chances[np.arange(len(pairs)), list(types)]).sum()
        if spent >= best:
            continue
        aromatic = [number for number, kind in enumerate(types) if kind == AROMATIC]
        for double in itertools.product((0, 1), repeat=len(aromatic)):
            orders = [1 if kind == AROMATIC else kind for kind in types]
            for number, more in zip(aromatic, double, strict=True):
                orders[number] += more
            price = spent
            for atom, number in enumerate(elements.tolist()):
                here = [place for place, pair in enumerate(pairs.tolist()) if atom in pair and types[place]]
                total, second = (
                    sum(orders[p] for p in here),
                    sum(orders[p] == 2 for p in here if p in aromatic),
                )
                fits = []
                for state, name in enumerate(states):
                    charges = (0, 1, -1) if name.charge is None else (name.charge,)
                    shared = name.charge is None and SYMBOLS[number - 1] not in ("N", "O", "P", "S")
                    h = name.hydrogens
                    if not shared and any(allowed(number, c, total + h, len(here) + h) for c in charges):
                        fits.append(likely[atom, state])
                if not fits or second > (1 if number <= 10 else 3):
                    price = np.inf
                    break
                price -= np.log(max(fits))
            best = min(best, price)
    return best


@pytest.mark.parametrize("seed", range(25))
def test_it_is_the_most_likely_of_all_valid_molecules(seed: int) -> None:
    case = random_case(seed, 4, 4, FEW)
    best = best_by_trying(case)
    found = decode(*case)
    if found is None:
        assert best > molecules.WIDEST / 2
    else:
        assert_valid(case[0], found)
        assert cost(case, found) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_integer_programming_finds_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(seed, 5, 6, FEW)
    found = decode(*case)
    monkeypatch.setattr(molecules, "PUSHES", 0)
    other = decode(*case)
    assert (found is None) == (other is None)
    if found is not None and other is not None:
        assert cost(case, other) == pytest.approx(cost(case, found), abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_no_answer_ever_breaks_the_rules(seed: int) -> None:
    case = random_case(seed, 12, 24, ALL)
    found = decode(*case)
    if found is not None:
        assert_valid(case[0], found)
        assert ((found.bond_doubts >= 0) & (found.bond_doubts <= 1 + 1e-9)).all()


def test_what_is_likeliest_is_kept_if_it_is_valid() -> None:
    case = sure("C C O", {(0, 1): 1, (1, 2): 2}, {0: "0 H3", 1: "0 H1"})
    found = decode(*case)
    assert found is not None
    assert found.changed == 0
    assert found.proven
    assert found.bonds.tolist() == [[0, 1], [1, 2]]
    assert found.types.tolist() == [1, 2]
    assert found.hydrogens.tolist() == [3, 1, 0]


def test_five_bonds_of_carbon_are_repaired_where_it_is_cheapest() -> None:
    elements, pairs, chances, states, likely = sure("C C O", {(0, 1): 2, (1, 2): 2}, {0: "0 H3", 1: "0 H1"})
    chances[0] = [0.01, 0.4, 0.57, 0.01, 0.01]  # single nearly as likely as double
    found = decode(elements, pairs, chances, states, likely)
    assert found is not None
    assert found.types.tolist() == [1, 2]
    assert found.changed == 1
    assert found.bond_doubts[0, 0] == pytest.approx(0.6)
    assert found.bond_doubts[0, 1] < 0.1


BENZENE = {(0, 1): 4, (1, 2): 4, (2, 3): 4, (3, 4): 4, (4, 5): 4, (0, 5): 4}
RING = {(0, 1): 4, (1, 2): 4, (2, 3): 4, (3, 4): 4, (0, 4): 4}


@pytest.mark.parametrize(
    ("elements", "bonds", "states", "orders", "charges"),
    [
        ("C C C C C C", BENZENE, dict.fromkeys(range(6), "0 H1"), [1, 1, 1, 2, 2, 2], [0] * 6),
        ("C O O", {(0, 1): 4, (0, 2): 4}, {0: "0 H1", 1: "shared", 2: "shared"}, [1, 2], [-1, 0, 0]),
        ("N C C C C", RING, {0: "0 H1"} | dict.fromkeys((1, 2, 3, 4), "0 H1"), [1, 1, 1, 2, 2], [0] * 5),
        (  # a sulfonate: two double bonds, and a charge on the third oxygen
            "C S O O O",
            {(0, 1): 1, (1, 2): 4, (1, 3): 4, (1, 4): 4},
            {0: "0 H3", 2: "shared", 3: "shared", 4: "shared"},
            [1, 1, 2, 2],
            [-1, 0, 0, 0, 0],
        ),
        (  # guanidinium
            "C N N N",
            {(0, 1): 4, (0, 2): 4, (0, 3): 4},
            dict.fromkeys((1, 2, 3), "shared H2"),
            [1, 1, 2],
            [0, 0, 0, 1],
        ),
        (  # nitro, of which the nitrogen's charge is certain
            "C N O O",
            {(0, 1): 1, (1, 2): 4, (1, 3): 4},
            {0: "0 H3", 1: "+1", 2: "shared", 3: "shared"},
            [1, 1, 2],
            [-1, 0, 0, 1],
        ),
        (  # imidazolium
            "N C N C C",
            {(0, 1): 4, (1, 2): 4, (2, 3): 4, (3, 4): 4, (0, 4): 4},
            {0: "shared H1", 1: "0 H1", 2: "shared H1", 3: "0 H1", 4: "0 H1"},
            [1, 1, 1, 2, 2],
            [0, 0, 0, 0, 1],
        ),
        (
            "Cl O O O O",
            {(0, 1): 4, (0, 2): 4, (0, 3): 4, (0, 4): 4},
            dict.fromkeys((1, 2, 3, 4), "shared"),
            [1, 2, 2, 2],
            [-1, 0, 0, 0, 0],
        ),
    ],
)
def test_one_resonance_form_is_written_with_few_charges(
    elements: str,
    bonds: dict[tuple[int, int], int],
    states: dict[int, str],
    orders: list[int],
    charges: list[int],
) -> None:
    case = sure(elements, bonds, states)
    found = decode(*case)
    assert found is not None
    assert found.changed == 0
    assert_valid(case[0], found)
    assert sorted(found.orders.tolist()) == orders
    assert sorted(found.charges.tolist()) == charges


@pytest.mark.parametrize(("oxide", "methyl"), [(0, 2), (2, 0)])
def test_a_charge_is_written_beside_its_counterpart(oxide: int, methyl: int) -> None:
    states = {0: "shared", 2: "shared", 1: "0 H1", 3: "0 H1", 4: "0 H1", 5: "0 H3", 6: "-1"}
    case = sure("N C N C C C O", RING | {(methyl, 5): 1, (oxide, 6): 1}, states)
    found = decode(*case)
    assert found is not None
    assert_valid(case[0], found)
    assert found.charges[[oxide, methyl, 6]].tolist() == [1, 0, -1]


def test_a_ring_that_has_no_resonance_form_is_repaired_as_a_whole() -> None:
    states = {0: "0"} | dict.fromkeys((1, 2, 3, 4), "0 H1")  # pyrrole without the hydrogen of its nitrogen
    elements, pairs, chances, all_states, likely = sure("N C C C C", RING, states)
    likely[0] = 0.01
    likely[0, [STATES.index("0"), STATES.index("0 H1")]] = [0.6, 0.22]
    found = decode(elements, pairs, chances, all_states, likely)
    assert found is not None
    assert found.hydrogens[0] == 1
    assert found.changed == 1


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_atoms_does_not_matter(seed: int) -> None:
    elements, pairs, chances, states, likely = random_case(seed, 8, 14, ALL)
    order = np.random.default_rng(seed).permutation(8)  # new number of each atom
    back = np.argsort(order)
    moved = np.sort(order[pairs], axis=1)
    found = decode(elements, pairs, chances, states, likely)
    other = decode(elements[back], moved, chances, states, likely[back])
    assert (found is None) == (other is None)
    if found is not None and other is not None:
        assert other.states[order].tolist() == found.states.tolist()
        known = {
            tuple(sorted(order[pair])): kind for pair, kind in zip(found.bonds, found.types, strict=True)
        }
        assert known == {tuple(pair): kind for pair, kind in zip(other.bonds, other.types, strict=True)}


def test_the_cost_is_bounded_for_two_hundred_atoms() -> None:
    case = random_case(0, 200, 600, ALL)
    start = time.perf_counter()
    found = decode(*case)
    assert time.perf_counter() - start < 20  # about one second; the bound is for a machine in use
    if found is not None:
        assert not found.proven
        assert_valid(case[0], found)


def test_a_search_that_ends_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = sure("C C O", {(0, 1): 2, (1, 2): 2}, {0: "0 H3", 1: "0 H1"}, likely=0.99)
    monkeypatch.setattr(molecules, "PUSHES", 0)
    monkeypatch.setattr(molecules, "best_choices", lambda *given: ([1, 1, 1, 1, 0, 2], False))
    found = decode(*case)
    assert found is None or not found.proven


def test_a_large_aromatic_system_has_a_form() -> None:
    ends = [(k, (k + 1) % 10) for k in range(10)] + [(0, 10), (10, 11), (11, 12), (12, 13), (13, 1)]
    carbon = {atom: {1: 0} for atom in range(14)}
    double = resonance_form(ends, carbon)
    assert double is not None
    met = np.bincount(
        np.array([end for end, more in zip(ends, double, strict=True) if more]).ravel(), minlength=14
    )
    assert (met == 1).all()
    assert resonance_form([(0, 1), (1, 2)], {0: {1: 0}, 1: {1: 0}, 2: {1: 0}}) is None


def test_names_of_states_are_read() -> None:
    assert parse_states(["0", "+1 H3", "-1", "shared H2"]) == [
        State(0, 0),
        State(1, 3),
        State(-1, 0),
        State(None, 2),
    ]
    with pytest.raises(GLNError, match="expected charges"):
        parse_states(["red", "blue"])


def test_the_rules_of_valence_are_no_wider_than_those_of_rdkit() -> None:
    chem = pytest.importorskip("rdkit.Chem")
    pytest.importorskip("rdkit.RDLogger").DisableLog("rdApp.*")
    for symbol in [
        "H",
        "B",
        "C",
        "N",
        "O",
        "F",
        "Si",
        "P",
        "S",
        "Cl",
        "Se",
        "Br",
        "I",
        "Na",
        "Mg",
        "Al",
        "Ge",
        "As",
    ]:
        for charge, bonds in itertools.product(range(-2, 3), range(7)):
            if not doubles(NUMBER[symbol], State(charge, 0), bonds, bonds, 0):
                continue
            molecule = chem.RWMol()
            atom = chem.Atom(symbol)
            atom.SetFormalCharge(charge)
            atom.SetNoImplicit(True)
            molecule.AddAtom(atom)
            for _ in range(bonds):
                molecule.AddBond(0, molecule.AddAtom(chem.Atom("F")), chem.BondType.SINGLE)
            chem.SanitizeMol(molecule)

"""The rules of valence: how many bonds an atom may have, and which resonance form fits.

An aromatic bond stands for one whose order is 1 or 2, in rings and wherever else resonance forms look alike; a shared
atom is one whose charge differs between such forms, as the oxygens of a carboxylate. In the end they get the orders
and charges of one form, with as few charges as possible.

By the same rules, the most likely molecule is also an integer program, for where a search over doubtful choices is too
long. Every choice is a variable of 0 or 1: of a pair its order, an aromatic bond being one of order 1 or one of order
2; of an atom its state together with how many bonds it has and what their orders add up to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from gln.errors import GLNError
from gln.later import sparse

# All elements by atomic number, two letters each.
TABLE = (
    "H HeLiBeB C N O F NeNaMgAlSiP S ClArK CaScTiV CrMnFeCoNiCuZnGaGeAsSeBrKrRbSrY ZrNbMoTc"
    "RuRhPdAgCdInSnSbTeI XeCsBaLaCePrNdPmSmEuGdTbDyHoErTmYbLuHfTaW ReOsIrPtAuHgTlPbBiPoAtRn"
    "FrRaAcThPaU NpPuAmCmBkCfEsFmMdNoLrRfDbSgBhHsMtDsRgCnNhFlMcLvTsOg"
)
SYMBOLS = [TABLE[place : place + 2].strip() for place in range(0, len(TABLE), 2)]
NUMBER = {symbol: number for number, symbol in enumerate(SYMBOLS, start=1)}
BONDS = ("single", "double", "triple", "aromatic")  # orders 1 to 4 of an SDF, types 0 to 3
AROMATIC = 4
ELEMENTS = ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I")  # of the shipped model
CHARGES = ("0", "+1", "-1", "shared")
STATES = tuple(charge + f" H{h}" * (h > 0) for charge in CHARGES for h in range(5))  # of its atoms
NOBLE = (2, 10, 18, 36, 54, 86, 118)

# What is worse in a resonance form: a charge than eight atoms, as of sulphur, with one more double bond than one, and
# each of these than a charge that is not beside one of the other sign.
CHARGED, CROWDED, ALONE = 16, 2, 1
FORMS = 2000  # steps in the search for a resonance form
MOST_BONDS = 8  # of an atom, and the most that their orders add up to, in an integer program
SECONDS = 2.0  # for solving it
NOTHING: Mapping[int, int] = MappingProxyType({})


class State(NamedTuple):
    """What the type of an atom says: its charge, ``None`` for a shared one, and hydrogens not listed as atoms."""

    charge: int | None
    hydrogens: int


def parse_states(names: Iterable[str]) -> list[State]:
    """States from names as in :data:`STATES`, such as ``+1``, ``0 H2`` or ``shared``."""
    found = [re.fullmatch(r"(shared|[+-]?\d)(?: H(\d?))?", name) for name in names]
    if not all(found):
        raise GLNError(
            f"The types of the nodes are {', '.join(names)}; expected charges as 0, +1 and -1, with or without "
            "hydrogens as in '+1 H3'."
        )
    return [
        State(None if match[1] == "shared" else int(match[1]), int(match[2] or 1) if " H" in match[0] else 0)
        for match in found
        if match
    ]


@lru_cache
def group(number: int) -> int | None:
    """The valence electrons of an element of a main group; ``None`` for the others, which no rule binds."""
    noble = next(each for each in NOBLE if each >= number)
    core = max((each for each in NOBLE if each < number), default=0)
    if noble == 2:
        return number
    if noble - number <= 5:
        return 8 - (noble - number)
    return number - core if number - core <= 2 else None


@lru_cache
def valences(number: int, charge: int) -> tuple[int, ...] | None:
    """The numbers of bonds that an atom may have, a double one counted twice; ``None``: any.

    An atom with a charge is like the element with as many electrons: N⁺ has four bonds as C. From the third period on,
    elements with five electrons or more may have more bonds than their lone electrons, two at a time.
    """
    electrons = group(number)
    if electrons is None:
        return None
    electrons -= charge
    if not 0 <= electrons <= 8:
        return ()
    if number <= 2:
        return (1,) if electrons == 1 else (0,)
    least = min(electrons, 8 - electrons)
    symbol = SYMBOLS[number - 1]
    if number <= 10 or electrons <= 4:
        return (least,)
    most = electrons if electrons <= 6 else electrons - 2
    if (electrons == 7 and symbol not in ("S", "Se", "Te", "I")) or (electrons == 8 and symbol != "I"):
        most = least
    return tuple(range(least, most + 1, 2))


def allowed(number: int, charge: int, total: int, bonds: int) -> bool:
    """Whether an atom may have ``bonds`` bonds, hydrogens included, whose orders add up to ``total``."""
    rule = valences(number, charge)
    if rule is None or total in rule:
        return True
    # The acids of chlorine, bromine and iodine: one single bond, all others double.
    return charge == 0 and SYMBOLS[number - 1] in ("Cl", "Br", "I") and total == 2 * bonds - 1 <= 7


@lru_cache(maxsize=2**16)
def doubles(number: int, state: State, total: int, bonds: int, aromatic: int) -> dict[int, int]:
    """How many of its aromatic bonds, counted once in ``total``, may be double, and the charge that the atom then has.

    Empty if the atom breaks the rules in any case.
    """
    charges: tuple[int, ...] = () if state.charge is None else (state.charge,)
    if state.charge is None and group(number) in (5, 6):
        charges = (0, -1, 1)
    found = {}
    for count in range(min(aromatic, 1 if number <= 10 else 3) + 1):
        fits = [charge for charge in charges if allowed(number, charge, total + count, bonds)]
        if fits:
            found[count] = fits[0]
    return found


def resonance_form(
    ends: Sequence[tuple[int, int]], options: dict[int, dict[int, int]], beside: Mapping[int, int] = NOTHING
) -> list[int] | None:
    """Which of the aromatic bonds ``ends`` are double (0 or 1 each), so that charges are few; ``None`` if none fits.

    ``options`` are those that :func:`doubles` gives for every atom at these bonds, ``beside`` the charges that its
    other bonds lead to, for atoms that have any: as of ``N⁺–O⁻`` in a ring.
    """
    at: dict[int, list[int]] = {atom: [] for atom in options}
    for number, (a, b) in enumerate(ends):
        at[a].append(number)
        at[b].append(number)
    chosen: dict[int, int] = {}  # by the number of the bond
    has = dict.fromkeys(options, 0)
    most = {atom: max(counts) for atom, counts in options.items()}
    best: list[int] | None = None
    least, steps = math.inf, FORMS

    def ways(atom: int) -> list[tuple[int, tuple[int, ...]]]:
        """What every choice at an atom costs, and the further double bonds that it makes."""
        free = []
        for bond in at[atom]:
            if bond not in chosen:
                other = sum(ends[bond]) - atom
                if has[other] < most[other]:
                    free.append(bond)
        found = []
        for count, charge in options[atom].items():
            if 0 <= count - has[atom] <= len(free):
                price = CHARGED * abs(charge) + CROWDED * max(count - 1, 0)
                price += ALONE * (charge != 0 and charge * beside.get(atom, 0) >= 0)
                found += [(price, some) for some in combinations(free, count - has[atom])]
        return found

    def search(todo: dict[int, None], cost: int) -> None:
        nonlocal best, least, steps
        if cost >= least or steps <= 0:
            return
        if not todo:
            best, least = [chosen[bond] for bond in range(len(ends))], cost
            return
        steps -= 1
        atom, found = -1, None
        for each in todo:  # the one with the fewest choices; those beside decided atoms come first
            here = ways(each)
            if found is None or len(here) < len(found):
                atom, found = each, here
                if len(here) <= 1:
                    break
        for more, double in sorted(found or ()):
            new = [bond for bond in at[atom] if bond not in chosen]
            beside = {sum(ends[bond]) - atom: None for bond in new}
            for bond in new:
                chosen[bond] = int(bond in double)
                for end in ends[bond]:
                    has[end] += chosen[bond]
            rest = {each: None for each in beside if each in todo}
            rest |= {each: None for each in todo if each != atom}
            search(rest, cost + more)
            for bond in new:
                for end in ends[bond]:
                    has[end] -= chosen[bond]
                del chosen[bond]

    search(dict.fromkeys(options), 0)
    return best


def best_choices(
    elements: Sequence[int],
    pairs: np.ndarray,
    states: Sequence[State],
    costs: Sequence[np.ndarray],
    dearest: float,
) -> tuple[list[int] | None, bool]:
    """The value of every variable of a :class:`gln.decoding.molecules.Space`, and whether none is known to be better.

    ``costs`` are of the states of the atoms ``[n, C]`` and of the types of the pairs ``[p, 5]``, in nats; choices that
    cost more than ``dearest`` are left out.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow, and rarely needed

    atoms = len(elements)
    price: list[float] = []
    meaning: list[tuple[int, int]] = []  # the variable of the space and its value
    row: list[int] = []
    column: list[int] = []
    factor: list[float] = []
    # Rows: one choice of each variable; then of every atom its bonds, their orders, and its aromatic ones of order 2.
    first = atoms + len(pairs)

    def choice(variable: int, value: int, cost: float, *entries: tuple[int, float]) -> None:
        for number, by in ((variable, 1.0), *entries):
            row.append(number)
            column.append(len(price))
            factor.append(by)
        price.append(cost)
        meaning.append((variable, value))

    for pair, ends in enumerate(pairs.tolist()):
        for kind, cost in enumerate(costs[1][pair].tolist()):
            if cost <= dearest:
                for order in (1, 2) if kind == AROMATIC else (kind,):
                    sums = (1.0, order, float(kind == AROMATIC and order == 2))
                    entries = [(first + 3 * end + place, by) for end in ends for place, by in enumerate(sums)]
                    choice(atoms + pair, kind, cost, *(entries if kind else ()))
    # ``total`` counts aromatic bonds once, so it tells apart how many of them are double.
    most = MOST_BONDS + 1
    sums_of_atom = [(bonds, total) for bonds in range(most) for total in range(bonds, most)]
    for atom, number in enumerate(elements):
        start = first + 3 * atom
        for state, cost in enumerate(costs[0][atom].tolist()):
            hydrogens = states[state].hydrogens
            for bonds, total in sums_of_atom if cost <= dearest else ():
                for count in doubles(number, states[state], total + hydrogens, bonds + hydrogens, bonds):
                    if total + count <= MOST_BONDS:
                        met = (start, -bonds), (start + 1, -total - count), (start + 2, -count)
                        choice(atom, state, cost, *met)
    rows = first + 3 * atoms
    table = sparse.csr_matrix((factor, (row, column)), shape=(rows, len(price)))
    exact = np.concatenate([np.ones(first), np.zeros(3 * atoms)])
    found = milp(
        price,
        integrality=np.ones(len(price)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(table, exact, exact),
        options={"time_limit": SECONDS},
    )
    if found.x is None:
        return None, False
    value = [0] * first
    for number in np.flatnonzero(found.x > 0.5).tolist():
        variable, chosen = meaning[number]
        value[variable] = chosen
    return value, found.status == 0

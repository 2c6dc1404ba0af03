"""The most likely molecule: bonds with orders, charges and hydrogens that keep the rules of valence together.

A model says of every pair of atoms how likely it is each type of bond or none, and of every atom in which state it is:
its formal charge, and the hydrogens it carries that are not listed as atoms. Each by itself, the likeliest of these
need not fit together. :func:`decode` finds the choice with the highest product of probabilities that does: an exact
search over the doubtful ones, best first and of bounded cost; where it ends early, the answer says so.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gln.decoding.valences import AROMATIC, NOTHING, State, best_choices, doubles, resonance_form

LEAST = 1e-4  # bonds less likely than this are not considered
SPAN = 5.0  # alternatives so many nats less likely than the best are considered first,
WIDEST = 20.0  # and if no molecule is found, up to these
PUSHES = 500  # choices looked at in the search of a region,
WEIGHED = 200  # and beyond the best
KEPT = 8  # molecules by which the best is weighed
TINY = 1e-7  # doubts below this are alike

Goals = list[tuple[float, dict[int, int]]]  # what molecules cost, and the values of their variables


@dataclass(frozen=True)
class Decoded:
    """A molecule of ``n`` atoms that keeps the rules of valence.

    ==============  ==========  ==========================================================================
    ``bonds``       ``[m, 2]``  two atoms each, the smaller first, sorted
    ``types``       ``[m]``     1 to 4: single, double, triple, aromatic
    ``orders``      ``[m]``     1 to 3: the same in one resonance form
    ``states``      ``[n]``     the number of each atom's state
    ``charges``     ``[n]``     its formal charge in that form
    ``hydrogens``   ``[n]``     how many it carries that are not listed
    ``bond_doubts``  ``[m, 2]``  how unlikely each bond is, by itself and among the molecules that were considered
    ``doubts``      ``[4]``     what speaks against all of it: the share of other molecules among those that were
                                considered, the greatest doubt of a choice by itself, the sum of these, and by how
                                many nats it is less likely than all that is likeliest by itself
    ``changed``     int         how many bonds and atoms are not what is most likely of each by itself
    ``proven``      bool        whether no molecule that keeps the rules is more likely
    ==============  ==========  ==========================================================================
    """

    bonds: np.ndarray
    types: np.ndarray
    orders: np.ndarray
    states: np.ndarray
    charges: np.ndarray
    hydrogens: np.ndarray
    bond_doubts: np.ndarray
    doubts: np.ndarray
    changed: int
    proven: bool


def decode(
    numbers: np.ndarray, pairs: np.ndarray, chances: np.ndarray, states: Sequence[State], likely: np.ndarray
) -> Decoded | None:
    """The most likely molecule; ``None`` if none was found that keeps the rules.

    Atoms with atomic ``numbers [n]`` are each in one of C ``states``, as ``likely [n, C]`` says. Two atoms may be
    bonded if they are among ``pairs [p, 2]``; ``chances [p, 5]`` are of no bond and of the orders 1 to 4.
    """
    space = Space(numbers, pairs, chances, states, likely)
    width = SPAN
    try:
        while (found := space.solve(width)) is None or found.lost > width:
            if found is None and width > WIDEST:
                return None
            width = 2 * width if found is None else found.lost  # what was left out costs more by itself
        proven = True
    except TooMany:
        found, proven = space.programmed()
    return None if found is None else space.answer(found, proven and found.lost <= -math.log(LEAST))


class TooMany(Exception):
    """The search of a region came to no end in time."""


class Space:
    """All choices for one molecule. Variable ``v < n`` is the state of an atom, ``n + p`` the type of a pair."""

    def __init__(
        self,
        numbers: np.ndarray,
        pairs: np.ndarray,
        chances: np.ndarray,
        states: Sequence[State],
        likely: np.ndarray,
    ) -> None:
        self.numbers, self.pairs, self.states = numbers, pairs, states
        self.atoms = len(numbers)
        # What each choice costs: how many nats it is less likely than the likeliest.
        self.chances = (likely, chances)
        self.costs = [-np.log(np.maximum(table, 1e-12)) for table in self.chances]
        self.best = np.concatenate([table.argmin(1) for table in self.costs])
        least = np.concatenate([table.min(1) for table in self.costs])
        self.doubt = -np.expm1(-least)  # that the likeliest choice is wrong
        self.costs = [table - table.min(1, keepdims=True) for table in self.costs]
        # What the second best of each costs; a single choice has none.
        several = [table if table.shape[1] > 1 else np.full((len(table), 2), np.inf) for table in self.costs]
        self.second = np.concatenate([np.partition(table, 1, axis=1)[:, 1] for table in several])
        self.forms: dict[tuple[object, ...], list[int] | None] = {}  # found before
        self.elements, self.ends = numbers.tolist(), pairs.tolist()

    def touched(self, variable: int) -> Sequence[int]:
        """The atoms whose valence depends on a variable."""
        return (variable,) if variable < self.atoms else self.ends[variable - self.atoms]

    def solve(self, width: float) -> Found | None:
        """The best molecule whose every choice costs at most ``width`` nats; ``None`` if there is none."""
        free = self.second <= width
        start = Choices(self, self.best.tolist())
        found = Found(start, self.doubt.copy())
        for variables in self._regions(free, width):
            options = {variable: self._options(variable, width) for variable in variables}
            if not found.take(search(start, options)):
                return None
        return found if found.choices.conflict() is None else None

    def programmed(self) -> tuple[Found | None, bool]:
        """The best molecule by integer programming, which is slower; and whether it is the best of likely choices."""
        for dearest in (-math.log(LEAST), WIDEST):
            value, proven = best_choices(self.elements, self.pairs, self.states, self.costs, dearest)
            if value is not None:
                break
        else:
            return None, False
        found = Found(Choices(self, value), self.doubt.copy())
        each = zip(self.costs, (value[: self.atoms], value[self.atoms :]), strict=True)
        found.lost = float(sum(table[np.arange(len(table)), part].sum() for table, part in each))
        return found if found.choices.conflict() is None else None, proven

    def _options(self, variable: int, width: float) -> list[tuple[float, int]]:
        """The values of a variable, the likeliest first, each with its cost."""
        paired = variable >= self.atoms
        row = self.costs[paired][variable - self.atoms * paired]
        return sorted((cost, value) for value, cost in enumerate(row.tolist()) if cost <= width)

    def _regions(self, free: np.ndarray, width: float) -> Iterator[list[int]]:
        """The free variables, in groups that do not depend on each other."""
        # A resonance form is one for all of its atoms. For so few, a sparse matrix would take ten times as long.
        tied = self.pairs[free[self.atoms :] | (self.costs[1][:, AROMATIC] <= width)].tolist()
        region = list(range(self.atoms))
        for a, b in tied if free.any() else ():
            one, two = region[a], region[b]
            if one != two:
                region = [one if each == two else each for each in region]
        groups: dict[int, list[int]] = {}
        for variable in np.flatnonzero(free).tolist():
            groups.setdefault(region[self.touched(variable)[0]], []).append(variable)
        yield from groups.values()

    def answer(self, found: Found, proven: bool) -> Decoded:
        """``found`` as arrays."""
        value = np.array(found.choices.value)
        states, types = value[: self.atoms], value[self.atoms :]
        kept = np.flatnonzero(types)
        kept = kept[np.lexsort(self.pairs[kept].T[::-1])]
        parts = zip(self.chances, (states, types), strict=True)
        alone = 1 - np.concatenate([table[np.arange(len(table)), part] for table, part in parts])
        orders, charges = found.choices.form()
        return Decoded(
            bonds=self.pairs[kept],
            types=types[kept],
            orders=np.array(orders, dtype=np.int64)[kept],
            states=states,
            charges=np.array(charges, dtype=np.int64),
            hydrogens=np.array([self.states[state].hydrogens for state in states.tolist()], dtype=np.int64),
            bond_doubts=np.stack([alone, found.doubt], axis=1)[self.atoms + kept],
            doubts=np.array([1 - found.share, alone.max(initial=0), alone.sum(), found.lost]),
            changed=int((value != self.best).sum()),
            proven=proven,
        )


class Choices:
    """A value for every variable, and what follows for the valence of every atom."""

    def __init__(self, space: Space, value: list[int]) -> None:
        self.space, self.value = space, value
        self.total, self.count, self.aromatic = ([0] * space.atoms for _ in range(3))
        for place, order in enumerate(value[space.atoms :]):
            if order:
                for atom in space.ends[place]:
                    self._bond(atom, order, 1)
        self.wrong = {atom for atom in range(space.atoms) if not self.doubles(atom)}

    def _bond(self, atom: int, order: int, sign: int) -> None:
        self.total[atom] += sign * (1 if order == AROMATIC else order)
        self.count[atom] += sign
        self.aromatic[atom] += sign * (order == AROMATIC)

    def copy(self) -> Choices:
        """The same choices, to be changed."""
        new = object.__new__(Choices)
        new.space, new.value, new.wrong = self.space, self.value.copy(), self.wrong.copy()
        new.total, new.count, new.aromatic = self.total.copy(), self.count.copy(), self.aromatic.copy()
        return new

    def choose(self, variable: int, value: int) -> None:
        old, self.value[variable] = self.value[variable], value
        for atom in self.space.touched(variable):
            if variable >= self.space.atoms:
                if old:
                    self._bond(atom, old, -1)
                if value:
                    self._bond(atom, value, 1)
            (self.wrong.discard if self.doubles(atom) else self.wrong.add)(atom)

    def doubles(self, atom: int) -> dict[int, int]:
        """As the function of this name, for one atom."""
        state = self.space.states[self.value[atom]]
        hydrogens = state.hydrogens
        total, count = self.total[atom] + hydrogens, self.count[atom] + hydrogens
        return doubles(self.space.elements[atom], state, total, count, self.aromatic[atom])

    def systems(self) -> list[tuple[list[int], list[int]]]:
        """The atoms and pairs of every connected set of aromatic bonds."""
        at: dict[int, list[int]] = {}
        for place, order in enumerate(self.value[self.space.atoms :]):
            if order == AROMATIC:
                for atom in self.space.ends[place]:
                    at.setdefault(atom, []).append(place)
        found, seen = [], set()
        for first in at:
            if first in seen:
                continue
            seen.add(first)
            atoms: list[int] = [first]
            places: dict[int, None] = {}
            for atom in atoms:
                for place in at[atom]:
                    places[place] = None
                    for other in self.space.ends[place]:
                        if other not in seen:
                            seen.add(other)
                            atoms.append(other)
            found.append((atoms, list(places)))
        return found

    def conflict(self, within: set[int] | None = None) -> Sequence[int] | None:
        """Atoms, some ``within``, whose choices cannot all stay as they are, few if possible; ``None`` if all can."""
        wrong = self.wrong if within is None else self.wrong & within
        if wrong:
            return (min(wrong),)
        for atoms, places in self.systems():
            if (within is None or not within.isdisjoint(atoms)) and self._doubled(atoms, places) is None:
                return atoms
        return None

    def _doubled(
        self, atoms: list[int], places: list[int], charged: Mapping[int, int] = NOTHING
    ) -> list[int] | None:
        """Which of a system's bonds are double, 0 or 1 each; ``None`` if no resonance form fits."""
        options = {atom: self.doubles(atom) for atom in atoms}
        beside = {atom: charged[atom] for atom in atoms if atom in charged}
        key = (*places, *(tuple(each.items()) for each in options.values()), *beside.items())
        if key not in self.space.forms:
            ends = [self.space.ends[place] for place in places]
            self.space.forms[key] = resonance_form(ends, options, beside)
        return self.space.forms[key]

    def _beside(self) -> dict[int, int]:
        """The charges of the atoms that an atom's bonds of a fixed order lead to, of atoms that have any."""
        found: dict[int, int] = {}
        for place, order in enumerate(self.value[self.space.atoms :]):
            if 0 < order < AROMATIC:
                one, two = self.space.ends[place]
                for atom, other in ((one, two), (two, one)):
                    if charge := self.space.states[self.value[other]].charge:
                        found[atom] = found.get(atom, 0) + charge
        return found

    def form(self) -> tuple[list[int], list[int]]:
        """The orders of all pairs and the charges of all atoms in one resonance form."""
        orders = self.value[self.space.atoms :]
        double = [0] * self.space.atoms
        charged = self._beside()
        for atoms, places in self.systems():
            for place, more in zip(places, self._doubled(atoms, places, charged) or [], strict=True):
                orders[place] = 1 + more
                for atom in self.space.ends[place]:
                    double[atom] += more
        return orders, [self.doubles(atom)[count] for atom, count in enumerate(double)]


@dataclass
class Found:
    """The best molecule of a search: what it costs, its share among those considered, and doubts of every choice."""

    choices: Choices
    doubt: np.ndarray
    lost: float = 0.0
    share: float = 1.0

    def take(self, goals: Goals) -> bool:
        """Take over what :func:`search` found for a region, if it found anything."""
        if not goals:
            return False
        first, values = goals[0]
        shares = np.exp([first - cost for cost, _ in goals])
        shares /= shares.sum()
        for variable, value in values.items():
            if value != self.choices.value[variable]:
                self.choices.choose(variable, value)
            others = [share for share, goal in zip(shares, goals, strict=True) if goal[1][variable] != value]
            self.doubt[variable] = sum(others)
        self.lost += first
        self.share *= shares[0]
        return True


def search(start: Choices, options: dict[int, list[tuple[float, int]]]) -> Goals:
    """The best values of the variables in ``options``, and the next best ones, with which no conflict is left.

    Wherever choices conflict, one of them must be another than the likeliest left: the first, or the second while the
    first stays, and so on. These are pursued in the order of what they cost, so the first without a conflict is the
    best. A molecule that was found is left in the same way for the next best.
    """
    touched = start.space.touched
    within = {atom for variable in options for atom in touched(variable)}
    at: dict[int, list[int]] = {}
    for variable in options:
        for atom in touched(variable):
            at.setdefault(atom, []).append(variable)
    goals: Goals = []
    empty: dict[int, int] = {}  # how many of its choices a variable has left behind
    nothing: frozenset[int] = frozenset()
    heap = [(0.0, 0, empty, nothing, start)]
    pushes, most = 0, PUSHES
    while heap and pushes < most:
        cost, _, left, fixed, choices = heapq.heappop(heap)
        if goals and cost > goals[0][0] + SPAN:
            break
        atoms = choices.conflict(within)
        if atoms is None:
            goals.append((cost, {variable: choices.value[variable] for variable in options}))
            if len(goals) == KEPT:
                break
            if len(goals) == 1:
                most = min(PUSHES, pushes + WEIGHED)
        ways = []
        scope = options if atoms is None else [variable for atom in atoms for variable in at.get(atom, ())]
        for variable in dict.fromkeys(scope):
            place = left.get(variable, 0) + 1
            if variable not in fixed and place < len(options[variable]):
                now, then = options[variable][place - 1 : place + 1]
                ways.append((then[0] - now[0], variable, place, then[1]))
        for more, variable, place, value in sorted(ways):
            new = choices.copy()
            new.choose(variable, value)
            pushes += 1
            heapq.heappush(heap, (cost + more, pushes, left | {variable: place}, fixed, new))
            fixed = fixed | {variable}
    if heap and not goals:
        raise TooMany
    return goals


def chance(doubts: np.ndarray, weights: Sequence[float] | None) -> np.ndarray:
    """How likely each row of ``doubts [N, F]`` is right, by ``weights`` that were fitted to answers.

    Without these, it is what the greater of the first two doubts leaves.
    """
    if weights is None:
        return 1 - doubts[:, :2].max(1).clip(0, 1)
    return 1 / (1 + np.exp(np.clip(weights[0] + logs(doubts) @ np.array(weights[1:]), -30, 30)))


def logs(doubts: np.ndarray) -> np.ndarray:
    """The logarithms of doubts: those of the odds against an answer are linear in these."""
    return np.log(np.maximum(doubts, TINY))

"""Operations on short stretches of arrays as single vectors, for loops that numba compiles.

A compiler may use vector instructions only where it knows that writes do not overlap reads. Numba cannot promise that
of two arrays, and a check at run time takes as long as the work on a few numbers. These functions promise it: they
read whole stretches before they write anything. Arrays are one-dimensional and contiguous, ``width`` is a constant,
and bounds are not checked.

The functions below define the results in plain Python; :func:`teach` gives numba their vector code.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray


def dot(x: Array, at: int, y: Array, to: int, width: int) -> Any:
    """``Σ x y`` over the stretches ``x[at : at + width]`` and ``y[to : to + width]``."""
    return (x[at : at + width] * y[to : to + width]).sum()


def dot_sum(x: Array, at: int, y: Array, to: int, z: Array, by: int, width: int) -> Any:
    """``Σ x (y + z)``."""
    return (x[at : at + width] * (y[to : to + width] + z[by : by + width])).sum()


def add_scaled(out: Array, into: int, share: Any, x: Array, at: int, width: int) -> None:
    """``out += share x``."""
    out[into : into + width] += share * x[at : at + width]


def add_scaled_sum(
    out: Array, into: int, share: Any, x: Array, at: int, y: Array, to: int, width: int
) -> None:
    """``out += share (x + y)``."""
    out[into : into + width] += share * (x[at : at + width] + y[to : to + width])


@cache
def teach() -> None:
    """Register the functions of this module with numba."""
    from numba import types
    from numba.extending import intrinsic, overload

    from gln.vector_code import Emit

    @intrinsic(prefer_literal=True)
    def dot_code(typing, x, at, y, to, width):  # type: ignore[no-untyped-def]
        def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
            emit = Emit(context, builder, x.dtype, width.literal_value)
            one, two = emit.stretch(x, given[0], given[1]), emit.stretch(y, given[2], given[3])
            return emit.total(emit.times(emit.load(one), emit.load(two)))

        return x.dtype(x, types.intp, y, types.intp, width), write

    @intrinsic(prefer_literal=True)
    def dot_sum_code(typing, x, at, y, to, z, by, width):  # type: ignore[no-untyped-def]
        def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
            emit = Emit(context, builder, x.dtype, width.literal_value)
            one, two = emit.stretch(x, given[0], given[1]), emit.stretch(y, given[2], given[3])
            both = emit.plus(emit.load(two), emit.load(emit.stretch(z, given[4], given[5])))
            return emit.total(emit.times(emit.load(one), both))

        return x.dtype(x, types.intp, y, types.intp, z, types.intp, width), write

    @intrinsic(prefer_literal=True)
    def add_scaled_code(typing, out, into, share, x, at, width):  # type: ignore[no-untyped-def]
        def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
            emit = Emit(context, builder, out.dtype, width.literal_value)
            added = emit.load(emit.stretch(x, given[3], given[4]))
            return emit.add_to(emit.stretch(out, given[0], given[1]), given[2], added)

        return types.void(out, types.intp, out.dtype, x, types.intp, width), write

    @intrinsic(prefer_literal=True)
    def add_scaled_sum_code(typing, out, into, share, x, at, y, to, width):  # type: ignore[no-untyped-def]
        def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
            emit = Emit(context, builder, out.dtype, width.literal_value)
            one, two = emit.stretch(x, given[3], given[4]), emit.stretch(y, given[5], given[6])
            added = emit.plus(emit.load(one), emit.load(two))
            return emit.add_to(emit.stretch(out, given[0], given[1]), given[2], added)

        return types.void(out, types.intp, out.dtype, x, types.intp, y, types.intp, width), write

    @overload(dot, prefer_literal=True)
    def _(x, at, y, to, width):  # type: ignore[no-untyped-def]
        return lambda x, at, y, to, width: dot_code(x, at, y, to, width)

    @overload(dot_sum, prefer_literal=True)
    def _(x, at, y, to, z, by, width):  # type: ignore[no-untyped-def]
        return lambda x, at, y, to, z, by, width: dot_sum_code(x, at, y, to, z, by, width)

    @overload(add_scaled, prefer_literal=True)
    def _(out, into, share, x, at, width):  # type: ignore[no-untyped-def]
        return lambda out, into, share, x, at, width: add_scaled_code(out, into, share, x, at, width)

    @overload(add_scaled_sum, prefer_literal=True)
    def _(out, into, share, x, at, y, to, width):  # type: ignore[no-untyped-def]
        return lambda out, into, share, x, at, y, to, width: add_scaled_sum_code(
            out, into, share, x, at, y, to, width
        )

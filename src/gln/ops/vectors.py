"""Vector operations for loops that numba compiles.

A compiler may use vector instructions only where it knows that writes do not overlap reads. Numba cannot promise that
of two arrays. :func:`dot` and :func:`add_scaled` promise it: they read whole stretches before they write anything.
Arrays are one-dimensional and contiguous, ``width`` is a constant, and bounds are not checked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from gln.ops.loops import OPTIONS

FLAGS = tuple(sorted(OPTIONS["fastmath"]))


@intrinsic(prefer_literal=True)
def dot(typing, x, at, y, to, width):  # type: ignore[no-untyped-def]
    """``Σ x y`` over the stretches ``x[at : at + width]`` and ``y[to : to + width]``."""

    def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
        one = _load(builder, _stretch(context, builder, x, given[0], given[1], width))
        two = _load(builder, _stretch(context, builder, y, given[2], given[3], width))
        number = context.get_data_type(x.dtype)
        kind = ir.FunctionType(number, [number, one.type])
        name = f"llvm.vector.reduce.fadd.v{width.literal_value}f{x.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        product = builder.fmul(one, two, flags=FLAGS)
        return builder.call(function, [ir.Constant(number, 0.0), product], fastmath=FLAGS)

    return x.dtype(x, types.intp, y, types.intp, width), write


@intrinsic(prefer_literal=True)
def add_scaled(typing, out, into, share, x, at, width):  # type: ignore[no-untyped-def]
    """``out += share x`` over ``out[into : into + width]`` and ``x[at : at + width]``."""

    def write(context, builder, signature, given):  # type: ignore[no-untyped-def]
        place = _stretch(context, builder, out, given[0], given[1], width)
        added = _load(builder, _stretch(context, builder, x, given[3], given[4], width))
        nothing = ir.Constant(added.type, ir.Undefined)
        first = builder.insert_element(nothing, given[2], ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), width.literal_value), [0] * width.literal_value)
        scaled = builder.fmul(builder.shuffle_vector(first, nothing, lanes), added, flags=FLAGS)
        builder.store(builder.fadd(_load(builder, place), scaled, flags=FLAGS), place, align=4)
        return context.get_dummy_value()

    return types.void(out, types.intp, out.dtype, x, types.intp, width), write


def _stretch(context: Any, builder: Any, kind: Any, array: Any, index: Any, width: Any) -> Any:
    """A pointer to the vector of ``width`` numbers that begins at ``index``."""
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(context.get_data_type(kind.dtype), width.literal_value)
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _load(builder: Any, stretch: Any) -> Any:
    return builder.load(stretch, align=4)


def exp(x: Any) -> Any:
    """``e^x``; in float32 for ``x`` up to 88 and inlined, so that the loop around it vectorises."""
    return math.exp(x)


@overload(exp, jit_options=OPTIONS)
def _(x):  # type: ignore[no-untyped-def]
    return _short_exp if x == types.float32 else lambda x: math.exp(x)


# In float32: 2^k times a polynomial (Cephes) in the remainder, accurate to the last digit or two.
TURNS, HALF, LEAST = np.float32(1 / math.log(2)), np.float32(0.5), np.float32(-87)
HIGH, LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # log 2 in two parts, the first exact
C0, C1, C2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
C3, C4, C5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
ZERO, UNIT, BIAS, DIGITS = np.float32(0), np.float32(1), np.int32(127), np.int32(23)


def _short_exp(x):  # type: ignore[no-untyped-def]
    whole = np.floor(x * TURNS + HALF)
    rest = x - whole * HIGH - whole * LOW
    tail = ((((C0 * rest + C1) * rest + C2) * rest + C3) * rest + C4) * rest + C5
    power = np.int32((np.int32(whole) + BIAS) << DIGITS).view(np.float32)  # 2^k: k shifted into the exponent
    value = (tail * rest * rest + rest + UNIT) * power
    return ZERO if x < LEAST else value  # written this way, NaN stays NaN

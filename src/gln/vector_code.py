"""LLVM code behind :mod:`gln.vectors`; imported only where numba is installed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from gln.compiling import OPTIONS

FLAGS = tuple(sorted(OPTIONS["fastmath"]))


class Emit:
    """Emits instructions on vectors of ``width`` numbers into a function that numba compiles."""

    def __init__(self, context: Any, builder: Any, number: Any, width: int) -> None:
        self.context, self.builder, self.width, self.bits = context, builder, width, number.bitwidth
        self.number = context.get_data_type(number)
        self.vector = ir.VectorType(self.number, width)

    def stretch(self, kind: Any, array: Any, index: Any) -> Any:
        """A pointer to the ``width`` numbers from ``index`` on."""
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        return self.builder.bitcast(self.builder.gep(data, [index]), self.vector.as_pointer())

    def load(self, stretch: Any) -> Any:
        return self.builder.load(stretch, align=self.bits // 8)

    def plus(self, one: Any, two: Any) -> Any:
        return self.builder.fadd(one, two, flags=FLAGS)

    def times(self, one: Any, two: Any) -> Any:
        return self.builder.fmul(one, two, flags=FLAGS)

    def total(self, vector: Any) -> Any:
        """The sum of its numbers."""
        kind = ir.FunctionType(self.number, [self.number, self.vector])
        name = f"llvm.vector.reduce.fadd.v{self.width}f{self.bits}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [ir.Constant(self.number, 0.0), vector], fastmath=FLAGS)

    def add_to(self, stretch: Any, share: Any, vector: Any) -> Any:
        """Add ``share`` times the vector to ``stretch``, in place."""
        scaled = self.times(self._everywhere(share), vector)
        self.builder.store(self.plus(self.load(stretch), scaled), stretch, align=self.bits // 8)
        return self.context.get_dummy_value()

    def _everywhere(self, number: Any) -> Any:
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, nothing, places)

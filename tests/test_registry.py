"""What is written in the short form is read back."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gln.errors import GLNError
from gln.registry import parse_spec, read_value, write_spec

NAMES = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
WORDS = st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(
    lambda word: word not in ("nan", "inf", "infinity")
)
VALUES = st.one_of(
    st.booleans(),
    st.none(),
    st.integers(-5, 500),
    st.floats(0.001, 9),
    st.tuples(st.integers(0, 9), st.integers(0, 99)),
    WORDS.filter(lambda word: word not in ("true", "false", "none")),
)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=4))
def test_written_and_read(name: str, parameters: dict) -> None:
    assert parse_spec(write_spec(name, parameters)) == (name, parameters)


def test_a_parameter_without_a_value_gets_one_sentence() -> None:
    with pytest.raises(GLNError, match="expected name=value"):
        parse_spec("surfaces:points")


@pytest.mark.parametrize(("word", "value"), [("False", False), ("TRUE", True), ("None", None)])
def test_true_false_and_none_are_read_in_any_case(word: str, value: object) -> None:
    assert read_value(word) is value

"""Names that rooms which may not import each other each have to know: they are the same names."""

from __future__ import annotations

from pytest_ngram.engine import flag_table
from pytest_ngram.matrix import spec
from pytest_ngram.models import memory
from pytest_ngram.verdict import summary


def test_the_matrix_allows_the_types_that_the_engine_knows() -> None:
    """A type of the engine can be written in the matrix, and no other; `none` is the want of one."""
    assert set(spec.SPEC_TYPES) == set(flag_table.SPEC_TYPES) - {"none"}
    assert len(spec.SPEC_TYPES) == len(set(spec.SPEC_TYPES))
    assert set(spec.SPEC_TYPES) > spec.STATEFUL_TYPES


def test_the_need_of_every_cache_type_can_be_computed() -> None:
    """`-ctk` and `-ctv` take the types whose memory is known, and no other."""
    flags = {flag.key: flag for flag in flag_table.FLAGS}
    assert set(flags["cache-type-k"].choices) == set(flags["cache-type-v"].choices) == set(memory.KV_TYPES)


def test_the_baseline_has_one_name() -> None:
    """What the matrix plans as the baseline is what the verdict compares with."""
    assert spec.BASELINE == summary.BASELINE

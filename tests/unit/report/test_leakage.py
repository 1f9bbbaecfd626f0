"""What the end of a run says of leakage and of echo prompts."""

from __future__ import annotations

import msgspec
import pytest

from pytest_ngram.matrix.spec import LeakageSpec
from pytest_ngram.record import Cell, CorpusPlace, Leakage, Outcome, Record, Round, Table
from pytest_ngram.report.echo import echo_lines
from pytest_ngram.report.leakage import leakage_lines

DEFAULT = LeakageSpec()
AT = CorpusPlace(corpus="c.jsonl", session="s", number=3, line=4)


def found(run: int | None, share: float | None) -> Leakage:
    return Leakage(run=run, share=share, of_one_message=share, exact=0, near=0, at=AT)


def a_record(
    prompt: str, leakage: Leakage | None, config: str = "t", prompt_set: str = "s", ms: float = 900.0
) -> Record:
    return Record(
        cell=Cell(
            model="m", config=config, prompt=prompt, prompt_set=prompt_set, temperature=0.0, block=1,
            pass_="first", position=0,
        ),
        model=None,
        engine=None,
        server=None,
        rounds=(
            Round(
                status="ok", seed=1, tokens=None, text_sha256=None, prompt_n=10, prompt_ms=100.0,
                predicted_n=10, predicted_ms=ms, wall_s=1.0, drafted=8, accepted=6, steps=3, verify_steps=2,
                replays=0, accepted_per_pos=None, n_decode=None, stop="limit",
            ),
        ),
        memory=None,
        host=None,
        table=None if config == "none" else Table("ab", 1, 1, 16, leakage),
        outcome=Outcome(status="ok"),
    )  # fmt: skip


def line_of(prompts: dict[str, Leakage | None], bounds: LeakageSpec = DEFAULT) -> str:
    (line,) = leakage_lines([a_record(name, each) for name, each in prompts.items()], {"t": bounds})
    return line


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        (
            {"a": found(9, 0.02), "b": found(3, 0.0)},
            "m/t: no prompt of 2 is in the corpus of the table: longest run 9 tokens, at most 2% of 8-grams",
        ),
        (
            {"a": found(16, 0.02), "b": found(3, 0.06)},
            "m/t: no prompt of 2 is in the corpus of the table: longest run 16 tokens, at most 6% of 8-grams"
            "; above half of a bound: a, b",
        ),
        (
            {"a": found(32, 0.02), "b": found(3, 0.11), "c": found(0, 0.0)},
            "m/t: 2 of 3 prompts are in the corpus of the table: a, b",
        ),
        (
            {"a": found(1, 0.0)},
            "m/t: no prompt of 1 is in the corpus of the table: longest run 1 token, no 8-gram",
        ),
        (
            {"a": found(8, 0.004)},
            "m/t: no prompt of 1 is in the corpus of the table: longest run 8 tokens, "
            "less than 1% of 8-grams",
        ),
        (
            {"a": found(9, 0.02), "b": found(2, None)},
            "m/t: no prompt of 2 is in the corpus of the table: longest run 9 tokens, at most 2% of 8-grams; "
            "too short to tell, fewer than 8 tokens: 1",
        ),
        (
            {"a": None},
            "m/t: whether its prompts are in the corpus of the table is not known: it is a ready file",
        ),
    ],
)
def test_one_line_says_where_a_table_stands(prompts: dict[str, Leakage | None], expected: str) -> None:
    """What is above a bound, or near it, or how far away all are; and what is not known."""
    assert line_of(prompts) == expected


def test_a_bound_of_nothing_is_one() -> None:
    """With `max_share: 0` a single 8-gram is a leak, and none is not."""
    none = LeakageSpec(max_share=0.0)
    assert "no prompt" in line_of({"a": found(7, 0.0)}, none)
    assert "1 of 1" in line_of({"a": found(8, 0.01)}, none)


def test_configs_without_a_table_and_echo_prompts_have_no_line() -> None:
    """Only real prompts of configs with a table are told of."""
    records = [a_record("a", None, "none"), a_record("echo-1", found(90, 1.0), prompt_set="echo")]
    assert leakage_lines(records, {"t": LeakageSpec()}) == []


def test_echo_is_set_beside_the_real_prompts() -> None:
    """Speed, change and acceptance with its coverage, of both; the baseline has no line."""
    records = [
        a_record("a", None, "none"),
        a_record("a", None),
        a_record("echo-1", None, "none", "echo"),
        a_record("echo-1", None, "t", "echo", ms=450.0),
    ]
    assert echo_lines(records, ["none", "t"]) == [
        "m: 1 echo prompt out of the table's corpus, temperature 0; in no figure above",
        "  t: echo 20.0 t/s (+100.0% vs none), accept @ coverage 0.750 @ 67%; "
        "real 10.0 t/s (+0.0% vs none), accept @ coverage 0.750 @ 67%",
    ]
    assert echo_lines(records[:2]) == []
    (unknown,) = echo_lines(records[3:])[1:]
    assert unknown.endswith("; real —")


def test_an_older_record_reads_as_unknown() -> None:
    """A table without `leakage` is one whose leakage is null."""
    fields = {"sha256": "ab", "keys": 1, "pairs": 1, "bytes": 16}
    assert msgspec.convert(fields, Table) == Table("ab", 1, 1, 16, None)

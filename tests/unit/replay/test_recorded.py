"""A recorded command line tells the policy, and requests tell what decodes took."""

from __future__ import annotations

import pytest

from pytest_ngram.drafting.policy import parse
from pytest_ngram.record import Engine
from pytest_ngram.replay.recorded import policy_of, slots, table_paths


def engine_of(argv: str) -> Engine:
    return Engine(
        kind="binary",
        package=None,
        version=None,
        build=None,
        label=None,
        binary_sha256=None,
        argv=tuple(argv.split()),
        spec_types=(),
        capabilities={},
    )


@pytest.mark.parametrize(
    ("argv", "policy"),
    [
        ("-m a.gguf --spec-type ngram-simple", "ngram-simple"),
        ("-m a.gguf --spec-type ngram-cache,ngram-mod -lcs t.lcs", "ngram-mod+ngram-cache"),
        (
            "--spec-type ngram-map-k,ngram-map-k --spec-ngram-map-k-size-n 3 --spec-ngram-map-k-size-m 5",
            "ngram-map-k:size_n=3,size_m=5",
        ),
        (
            "--spec-type ngram-mod --spec-ngram-mod-n-match 4 --spec-ngram-mod-n-max 9",
            "ngram-mod:n_match=4,n_max=9",
        ),
        # a number of a type that does not draft changes nothing
        ("-m a.gguf --spec-type ngram-simple --spec-ngram-map-k-size-n 3", "ngram-simple"),
    ],
)
def test_a_command_line_is_a_policy(argv: str, policy: str) -> None:
    """Types in llama.cpp's order, once each, with the numbers of their flags and llama.cpp's defaults."""
    assert policy_of(engine_of(argv)) == parse(policy)


def test_no_type_is_the_empty_policy() -> None:
    """A baseline drafts nothing: that is known, and is not unknown."""
    policy = policy_of(engine_of("-m a.gguf"))
    assert policy is not None
    assert policy.drafters == ()


@pytest.mark.parametrize(
    "argv", ["", "-m a.gguf --spec-type draft-mtp", "-m a.gguf --spec-type draft-mtp,ngram-mod"]
)
def test_what_a_model_drafts_has_no_policy(argv: str) -> None:
    """A drafting model and a command line that is not known are not guessed."""
    assert policy_of(engine_of(argv)) is None


def test_tables_and_slots_are_read_from_the_command_line() -> None:
    """`-lcs`, `-lcd` and `-np` by any of their names; what is not said is None, and one slot."""
    assert table_paths(engine_of("-m a -lcs s.lcs --lookup-cache-dynamic d.lcd")) == ("s.lcs", "d.lcd")
    assert table_paths(engine_of("-m a")) == (None, None)
    assert (slots(engine_of("-m a -np 3")), slots(engine_of("-m a"))) == (3, 1)

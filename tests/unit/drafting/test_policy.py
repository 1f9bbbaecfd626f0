"""A policy is read from a text, and says all of itself as a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.drafting.policy import DEFAULTS, Drafter, Policy, drafter, parse, stack
from pytest_ngram.errors import OptionError


@st.composite
def drafters(draw: st.DrawFn, name: str) -> Drafter:
    """Any drafter of a type."""
    numbers = {key: draw(st.integers(1, 1024)) for key in DEFAULTS[name] if draw(st.booleans())}
    if name == "prompt-lookup":
        low, high = sorted((draw(st.integers(1, 1024)), draw(st.integers(1, 1024))))
        numbers |= {"min": low, "max": high}
    return drafter(name, numbers, draw(st.sampled_from(["built", "documented"])))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Any stack."""
    names = draw(st.lists(st.sampled_from(list(DEFAULTS)), min_size=1, unique=True))
    return stack([draw(drafters(name)) for name in names])


@given(policy=policies())
def test_a_policy_is_read_as_it_is_written(policy: Policy) -> None:
    """The text of a policy, in which all numbers stand, is read as the same policy."""
    assert parse(str(policy)) == policy


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ngram-simple", "ngram-simple:size_n=12,size_m=48,min_hits=1"),
        ("ngram-map-k", "ngram-map-k:size_n=12,size_m=48,min_hits=1"),
        ("ngram-map-k4v", "ngram-map-k4v:size_n=12,size_m=48,min_hits=1"),
        ("ngram-mod", "ngram-mod:n_match=24,n_min=48,n_max=64"),
        ("ngram-cache", "ngram-cache:n_draft=8"),
        ("prompt-lookup", "prompt-lookup:n=8,min=3,max=12"),
    ],
)
def test_numbers_that_are_not_given_are_llama_cpps(name: str, text: str) -> None:
    """A bare name has the defaults of llama.cpp's flags."""
    assert str(parse(name)) == text


def test_a_stack_has_llama_cpps_order() -> None:
    """However a stack is written, its types are asked in the priority that is built in."""
    written = "prompt-lookup+ngram-cache+ngram-mod+ngram-map-k4v+ngram-map-k+ngram-simple"
    assert [each.name for each in parse(written).drafters] == list(DEFAULTS)
    assert parse("ngram-cache + ngram-simple@documented") == parse("ngram-simple@documented+ngram-cache")


def test_the_widest_draft_is_that_of_the_widest_drafter() -> None:
    """Each type's own number says how long its drafts may be."""
    assert parse("ngram-simple:size_m=5+ngram-cache").widest == 8
    assert parse("ngram-mod:n_max=70+ngram-map-k:size_m=9").widest == 70
    assert parse("prompt-lookup:n=3").widest == 3


def test_as_documented_changes_the_variant_alone() -> None:
    """All drafters of a stack become documented, with the numbers that they have."""
    policy = parse("ngram-simple:size_n=3+ngram-cache")
    assert policy.as_documented() == parse("ngram-simple:size_n=3@documented+ngram-cache@documented")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("ngram simple", "cannot be read"),
        ("ngram-simple:", None),
        ("ngram-huge", "no drafter is called 'ngram-huge'"),
        ("ngram-simple:size=3", "has no number 'size'"),
        ("ngram-simple:size_n", "'size_n'"),
        ("ngram-simple:size_n=-3", "'size_n=-3'"),
        ("ngram-simple:size_n=0", "not within 1 to 1024"),
        ("ngram-simple:size_n=1025", "not within 1 to 1024"),
        ("ngram-mod:n_min=0", None),
        ("ngram-simple@mended", "no drafter is 'mended'"),
        ("ngram-simple+ngram-simple:size_n=3", "stands twice"),
        ("prompt-lookup:min=5,max=4", "max=4 is below min=5"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str | None) -> None:
    """A text that is no policy is refused with the part that is wrong, and a way on."""
    if said is None:
        parse(text)
        return
    with pytest.raises(OptionError) as error:
        parse(text)
    assert said in error.value.cause
    assert "docs/replay.md" in error.value.fix

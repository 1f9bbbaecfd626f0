"""The law of prices, and the pruning that fits: pure arithmetic against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.table import Counts
from pytest_ngram.table.build.fitting import mildest_that_fits
from pytest_ngram.table.build.pricing import SIZES, made_table
from pytest_ngram.table.build.spread import spread_of
from pytest_ngram.table.counts import drafting_keys, prune
from pytest_ngram.table.price import DEFAULT, Law, Price, Rate, Sample, fit

RATES = st.builds(Rate, st.floats(1, 2000), st.floats(1, 200))
LAWS = st.builds(Law, RATES, RATES, RATES)
ROWS = st.dictionaries(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)), st.integers(1, 40), max_size=60
)


def counts_of(rows: dict[tuple[int, int, int], int]) -> Counts:
    columns = np.array([[*triple, n] for triple, n in sorted(rows.items())], np.int64).reshape(-1, 4)
    return Counts(*(columns[:, i].astype(np.int32) for i in range(3)), columns[:, 3])


def sample(law: Law, keys: int, pairs: int) -> Sample:
    return Sample(keys, pairs, law.price(keys, pairs))


@given(LAWS, st.integers(1, 10**8), st.integers(1, 20), st.integers(1, 64))
@settings(deadline=None)
def test_two_sizes_give_the_law_back(law: Law, keys: int, pairs_per_key: int, slots: int) -> None:
    """What was measured on two tables predicts every third one, at any number of slots."""
    found = fit([sample(law, n, n * per_key) for n, per_key in SIZES])
    assert found is not None
    ours, theirs = (each.price(keys, keys * pairs_per_key, slots) for each in (found, law))
    assert ours.anon_bytes == pytest.approx(theirs.anon_bytes, rel=1e-3)
    assert ours.peak_bytes == pytest.approx(theirs.peak_bytes, rel=1e-3)
    assert ours.load_s == pytest.approx(theirs.load_s, rel=1e-3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Sample(100, 100, Price(1000, 1000, 0)), Sample(200, 200, Price(2000, 2000, 0))),
        (Sample(100, 100, Price(1000, 1000, 0)), Sample(200, 800, Price(900, 900, 0))),
        (Sample(100, 100, Price(0, 0, 0)), Sample(200, 800, Price(0, 0, 0))),
    ],
    ids=["the same shape twice", "more costs less", "nothing seen"],
)
def test_samples_that_cannot_decide_give_no_law(one: Sample, other: Sample) -> None:
    """A law that would make a key or a pair free, or worse, is no law."""
    assert fit([one, other]) is None


def test_a_busy_clock_does_not_spoil_the_memory() -> None:
    """A start that happened to be faster with a table costs no time, and its memory still counts."""
    found = fit([Sample(100, 100, Price(50_000, 50_000, -0.1)), Sample(100, 400, Price(70_000, 70_000, 0.2))])
    assert found is not None
    assert found.load.per_key == 0.0
    assert found.anon.of(100, 100) == pytest.approx(50_000)


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 100))
@settings(deadline=None)
def test_a_price_grows_with_slots_keys_and_pairs(keys: int, pairs: int, slots: int) -> None:
    """Memory is slots times that of one; a key or a pair more never costs less."""
    price = DEFAULT.price(keys, pairs, slots)
    assert price.anon_bytes == pytest.approx(slots * DEFAULT.price(keys, pairs).anon_bytes, abs=slots)
    for more in (DEFAULT.price(keys + 1, pairs, slots), DEFAULT.price(keys, pairs + 1, slots)):
        assert more.need_bytes > price.need_bytes
        assert more.load_s > price.load_s


@given(ROWS, st.integers(0, 40_000), st.integers(1, 3))
@settings(deadline=None)
def test_the_pruning_that_fits_is_what_prune_leaves(
    rows: dict[tuple[int, int, int], int], room_bytes: int, slots: int
) -> None:
    """Its keys and pairs are those of a real pruning with its flags, and what it needs is within the room."""
    counts = counts_of(rows)
    found = mildest_that_fits(counts, DEFAULT, slots, room_bytes)
    if found is None:
        return
    left = prune(counts, top_k=found.top_k, min_count=2, min_share=0.0, min_total=found.min_total)
    assert (found.keys, found.pairs) == (left.keys, left.pairs)
    assert found.need_bytes == DEFAULT.price(left.keys, left.pairs, slots).need_bytes <= room_bytes


def test_the_mildest_comes_first() -> None:
    """With room for all only what drafts nothing goes; with less, rare keys; with none there is no advice."""
    counts = counts_of({(a, 0, third): 2 + a for a in range(50) for third in range(6)})
    need = DEFAULT.price(50, 200).need_bytes
    mild = mildest_that_fits(counts, DEFAULT, 1, need)
    assert mild is not None
    assert (mild.flags, mild.keys, mild.pairs) == ("--top-k 4 --min-total 2", 50, 200)
    tight = mildest_that_fits(counts, DEFAULT, 1, need // 2)
    assert tight is not None
    assert tight.min_total > 2
    assert mildest_that_fits(counts, DEFAULT, 1, 100) is None
    assert mildest_that_fits(counts_of({}), DEFAULT, 1, need) is None


@pytest.mark.parametrize(("keys", "pairs_per_key"), SIZES)
def test_a_made_table_has_the_size_that_was_asked_for(keys: int, pairs_per_key: int) -> None:
    """What the engine is calibrated with is a sorted table of exactly so many keys and pairs."""
    made = made_table(keys, pairs_per_key)
    assert (made.keys, made.pairs) == (keys, keys * pairs_per_key)
    packed = made.key_a.astype(np.int64) << 34 | made.key_b.astype(np.int64) << 17 | made.third
    assert (np.diff(packed) > 0).all()


@given(ROWS)
@settings(deadline=None)
def test_the_spread_is_that_of_plain_counting(rows: dict[tuple[int, int, int], int]) -> None:
    """Every figure of `table info` against a loop over the pairs."""
    counts = counts_of(rows)
    spread = spread_of(counts)
    by_key: dict[tuple[int, int], list[int]] = {}
    for (a, b, _), n in rows.items():
        by_key.setdefault((a, b), []).append(n)
    sizes = [len(seen) for seen in by_key.values()]
    assert spread.keys_by_pairs == tuple(
        sum(size == n or (n == 4 < size) for size in sizes) for n in (1, 2, 3, 4)
    )
    assert spread.most_pairs == max(sizes, default=0)
    assert spread.seen == sum(rows.values())
    assert spread.pairs_seen_once == sum(n == 1 for n in rows.values())
    assert spread.by_half == len(drafting_keys(counts))
    assert spread.certain == sum(len(seen) == 1 and seen[0] >= 2 for seen in by_key.values())
    assert spread.ids == len({token for triple in rows for token in triple})
    assert spread.certain <= spread.by_most <= spread.by_half
    assert spread.median_seen == (np.median([sum(seen) for seen in by_key.values()]) if by_key else 0)

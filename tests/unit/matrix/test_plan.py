"""The run order: complete, repeatable, and with the baseline at both ends of each block."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.plan import block_order, order_lines, plan, request_seed

PROMPTS = {"chat": ["p1", "p2"], "code": ["q1"]}


@given(st.integers(), st.sets(st.sampled_from("abcdefgh")), st.integers(1, 9))
def test_none_opens_and_closes_each_block(seed: int, others: set[str], block: int) -> None:
    """Each block runs `none` first and last and every other config exactly once between."""
    order = block_order(["none", *sorted(others)], seed=seed, model="m", temperature=0.0, block=block)
    assert order[0] == ("none", "first")
    assert order[-1] == ("none", "last")
    assert sorted(order[1:-1]) == sorted((config, "first") for config in others)


def test_blocks_have_orders_of_their_own_and_repeat() -> None:
    """The shuffle differs between blocks, models and temperatures, and is the same whenever the seed is."""
    configs = ["none", *"abcdefgh"]
    orders = [
        tuple(block_order(configs, seed=7, model=m, temperature=t, block=b))
        for m in ("x", "y")
        for b in (1, 2, 3)
        for t in (0.0, 0.7)
    ]
    assert len(set(orders)) == len(orders)
    assert orders[0] == tuple(block_order(configs, seed=7, model="x", temperature=0.0, block=1))


def test_every_cell_is_planned_once_and_servers_are_never_interleaved(good: str) -> None:
    """The ids are unique, and cells of one start stand together, so that one server answers them all."""
    cells = plan(decode_matrix(good, "m"), "smoke", PROMPTS)
    assert max(Counter(cell.id for cell in cells).values()) == 1
    starts = [cell.start.id for cell in cells]
    changes = [s for i, s in enumerate(starts) if i == 0 or starts[i - 1] != s]
    assert len(changes) == len(set(changes))
    # alpha: (2 none + 2 configs) x (1 of chat + 1 of code) x 2 blocks; beta: (2 + 1) x 1 x 2
    assert len(cells) == 4 * 2 * 2 + 3 * 1 * 2


def test_ids_hold_what_a_user_types(good: str) -> None:
    """The id is model/config/prompt/temperature/block, with the pass where a config has both."""
    ids = [cell.id for cell in plan(decode_matrix(good, "m"), "smoke", PROMPTS)]
    assert ids[0] == "alpha/none/p1/t0/b1/first"
    assert "beta/mtp1/p1/t0/b2" in ids
    assert "beta/none/p1/t0/b2/last" in ids


def test_within_a_block_all_configs_see_the_prompts_in_one_order(good: str) -> None:
    """Prompt order is the set's order in every start."""
    cells = [c for c in plan(decode_matrix(good, "m"), "smoke", PROMPTS) if c.start.model == "alpha"]
    by_start: dict[str, list[str]] = {}
    for cell in cells:
        by_start.setdefault(cell.start.id, []).append(cell.prompt)
    assert set(map(tuple, by_start.values())) == {("p1", "q1")}


def test_order_lines_tell_each_block(good: str) -> None:
    """The printed order has one line per model and block and names both passes of the baseline."""
    lines = order_lines(plan(decode_matrix(good, "m"), "smoke", PROMPTS))
    assert len(lines) == 4
    assert lines[2] == "beta block 1 t0: none (first), mtp1, none (last)"


def test_a_request_seed_is_shared_by_configs_and_fits_the_engine() -> None:
    """The seed depends on prompt, block and round alone and stays below 2^31."""
    assert request_seed(1, "p", 1, 0) == request_seed(1, "p", 1, 0)
    seeds = {request_seed(1, p, b, r) for p in "pq" for b in (1, 2) for r in (0, 1)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_profile_plans_what_it_names(good: str) -> None:
    """Models and configs that a profile leaves out have no cells; the baseline keeps both ends."""
    text = good.replace("blocks: 2,", "blocks: 2, models: [alpha], configs: [none, mtp1],")
    cells = plan(decode_matrix(text, "m"), "smoke", PROMPTS)
    assert {cell.start.model for cell in cells} == {"alpha"}
    assert order_lines(cells) == [f"alpha block {b} t0: none (first), mtp1, none (last)" for b in (1, 2)]


def test_no_server_is_sent_a_prompt_twice(good: str) -> None:
    """A stateful type drafts a second answer from the first: each temperature has servers of its own."""
    text = good.replace("blocks: 2,", "blocks: 2, temperatures: [0, 0.7],")
    asked = Counter((c.start.id, c.prompt) for c in plan(decode_matrix(text, "m"), "smoke", PROMPTS))
    assert set(asked.values()) == {1}
    assert len({start for start, _prompt in asked}) == 2 * (4 * 2 + 3 * 2)

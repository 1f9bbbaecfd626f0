"""What the matrix says of leakage: bounds of a table, and prompts taken out of its corpus."""

from __future__ import annotations

import pytest

from pytest_ngram.errors import MatrixError
from pytest_ngram.matrix.budget import fit
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.plan import plan
from pytest_ngram.matrix.spec import LeakageSpec

PROMPTS = {"chat": ["p1", "p2"], "code": ["q1"]}
ECHO = {"demo": ["echo-1", "echo-2"]}


@pytest.fixture
def echoing(good: str) -> str:
    return good.replace("prompts: {chat: 1}", "prompts: {chat: 1}, echo: {demo: 2}")


def test_bounds_are_those_of_the_table(good: str) -> None:
    """31 tokens and a tenth where nothing is said; what is said stands alone or together."""
    assert decode_matrix(good, "m").tables["demo"].leakage == LeakageSpec(31, 0.1)
    said = good.replace("{path: c.jsonl}", "{path: c.jsonl}, leakage: {max_share: 0.5}")
    assert decode_matrix(said, "m").tables["demo"].leakage == LeakageSpec(31, 0.5)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("{max_runs: 9}", "tables.demo.leakage.max_runs: unknown key"),
        ("{max_run_tokens: 0}", "tables.demo.leakage.max_run_tokens: Expected `int` >= 1"),
        ("{max_run_tokens: 9.5}", "tables.demo.leakage.max_run_tokens: Expected `int`"),
        ("{max_share: 10}", "tables.demo.leakage.max_share: Expected `float` <= 1.0"),
        ("{max_share: .nan}", "tables.demo.leakage.max_share"),
        ("9", "tables.demo.leakage: expected a mapping"),
    ],
)
def test_wrong_bounds_are_refused(good: str, bounds: str, expected: str) -> None:
    """Bounds are checked like every key of the matrix."""
    text = good.replace("{path: c.jsonl}", f"{{path: c.jsonl}}, leakage: {bounds}")
    with pytest.raises(MatrixError) as caught:
        decode_matrix(text, "m.yaml")
    assert expected in str(caught.value)


def test_a_ready_file_has_no_bounds(good: str) -> None:
    """Without a corpus nothing can be bounded, so the key would have no effect."""
    text = good.replace("corpus: {path: c.jsonl}", "file: {path: c.lcs}, leakage: {max_share: 0.5}")
    with pytest.raises(MatrixError, match=r"tables.demo: says how to build a table that is ready"):
        decode_matrix(text, "m.yaml")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("echo: {demo: 2}", "echo: {dmeo: 2}", "profiles.smoke.echo.dmeo: unknown table 'dmeo'"),
        ("echo: {demo: 2}", "echo: {demo: 0}", "profiles.smoke.echo"),
        ("corpus: {path: c.jsonl}", "file: {path: c.lcs}", "profiles.smoke.echo.demo: is a ready file"),
        ("blocks: 2", "blocks: 2, configs: [none, mtp1]", "no config of the profile reads this table"),
        (
            "  chat: {path: chat.yaml}",
            "  echo: {path: e.yaml}\n  chat: {path: c.yaml}",
            "prompt_sets.echo: is",
        ),
    ],
)
def test_echo_prompts_that_cannot_be_had_are_refused(echoing: str, old: str, new: str, expected: str) -> None:
    """The table has to be there, to have a corpus, and to be read by a config of the profile."""
    assert old in echoing
    with pytest.raises(MatrixError) as caught:
        decode_matrix(echoing.replace(old, new), "m.yaml")
    assert expected in str(caught.value)


def test_echo_prompts_run_last_with_the_table_and_the_baseline(echoing: str) -> None:
    """No type that remembers has seen them before a real prompt, and no other config is measured on them."""
    matrix = decode_matrix(echoing, "m")
    cells = plan(matrix, "smoke", PROMPTS, ECHO)
    by_start: dict[str, list[str]] = {}
    for cell in cells:
        by_start.setdefault(cell.start.id, []).append(cell.prompt)
    for start, prompts in by_start.items():
        config = start.split("/")[1]
        echo = [prompt for prompt in prompts if prompt.startswith("echo-")]
        assert echo == (["echo-1", "echo-2"] if start.startswith("alpha/") and config != "mtp1" else [])
        assert prompts[len(prompts) - len(echo) :] == echo
    assert {cell.prompt_set for cell in cells if cell.is_echo} == {"echo"}
    assert [c for c in cells if not c.is_echo] == plan(
        decode_matrix(echoing, "m"), "smoke", PROMPTS, {"demo": []}
    )


def test_a_budget_counts_them_but_gives_up_others_first(echoing: str) -> None:
    """They are no part of the grid: they stay with the blocks that are kept, whatever prompts are."""
    cells = plan(decode_matrix(echoing, "m"), "smoke", PROMPTS, ECHO)
    cost = float(len([cell for cell in cells if cell.start.block == 1]))
    cut = fit(cells, {}, lambda chosen: float(len(chosen)), cost)
    assert cut.duration_s <= cost
    kept = {cell.start.block for cell in cut.cells}
    assert [c for c in cut.cells if c.is_echo] == [c for c in cells if c.is_echo and c.start.block in kept]
    only = [cell for cell in cells if cell.is_echo]
    assert fit(only, {}, lambda chosen: float(len(chosen)), 1e9).cells == tuple(only)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.engine import decodes


@pytest.mark.parametrize(
    ("prompt_n", "n_batch", "n_ubatch", "count"),
    [
        (4, 2048, 512, 1),
        (5, 2048, 512, 2),
        (516, 2048, 512, 2),
        (517, 2048, 512, 3),
        (2048, 2048, 512, 3),
        (2565, 2048, 512, 4),
        (600, 2048, 64, 3),
        (600, 128, 64, 7),
        (12, 2, 2, 6),
    ],
)
def test_prompt_decodes_with_checkpoints(prompt_n: int, n_batch: int, n_ubatch: int, count: int) -> None:
    """The counts seen on the hybrid hand-built model."""
    assert decodes.prompt_decodes(prompt_n, n_batch=n_batch, n_ubatch=n_ubatch, checkpoints=True) == count


@pytest.mark.parametrize(("prompt_n", "count"), [(0, 0), (1, 1), (2048, 1), (2049, 2)])
def test_prompt_decodes_without_checkpoints(prompt_n: int, count: int) -> None:
    """On other models only the batch size counts."""
    assert decodes.prompt_decodes(prompt_n, checkpoints=False) == count


@given(st.integers(1, 5000), st.integers(1, 600), st.integers(1, 600))
def test_checkpoints_add_at_most_two(prompt_n: int, n_batch: int, n_ubatch: int) -> None:
    """The two stops before the end never add more than two decodes, nor save any."""
    plain = decodes.prompt_decodes(prompt_n, n_batch=n_batch, n_ubatch=n_ubatch, checkpoints=False)
    stopped = decodes.prompt_decodes(prompt_n, n_batch=n_batch, n_ubatch=n_ubatch, checkpoints=True)
    assert plain == -(-prompt_n // n_batch)
    assert plain <= stopped <= plain + 2


def test_steps_of_the_worked_example() -> None:
    """A draft of 12 refused after 2, replayed: 4 tokens after the prompt's own, 2 accepted, 2 decodes."""
    assert decodes.steps(5, 2) == 2

"""When a pass proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_ngram.judge import vacuity
from pytest_ngram.judge.types import Answer, Verdict, failed, passed

Make = Callable[..., Answer]


Counts = tuple[int | None, ...]
Reasons = dict[str, str | None]
PERFECT: Reasons = {"never_rejected": "the model is perfect"}
SILENT: Reasons = {"abstains": "no such n-grams"}


@pytest.mark.parametrize(
    ("drafted", "accepted", "reasons", "found"),
    [
        ((8, 0), (3, 0), {}, ("passed", None)),
        ((None, None), (None, None), {}, ("failed", "vacuous")),
        ((8, 2), (0, 0), {}, ("failed", "vacuous")),
        ((8, 2), (8, 2), {}, ("failed", "vacuous")),
        ((8, 2), (8, 2), PERFECT, ("passed", "never rejected")),
        ((8, 2), (8, 1), PERFECT, ("failed", "rejections")),
        ((None, 0), (None, 0), SILENT, ("passed", "abstains")),
        ((None, 4), (None, 1), SILENT, ("failed", "drafts")),
    ],
)
def test_each_case(
    answer: Make, drafted: Counts, accepted: Counts, reasons: Reasons, found: tuple[str, str | None]
) -> None:
    """A config must draft, be right and be wrong, pooled over prompts; each exception needs its reason."""
    answers = [answer(draft_n=n, draft_n_accepted=k) for n, k in zip(drafted, accepted, strict=True)]
    verdict = vacuity.judge(answers, **{"abstains": None, "never_rejected": None, **reasons})
    assert (verdict.status, verdict.kind) == found


@pytest.mark.parametrize(
    ("drafted", "accepted", "abstains", "wrong", "status"),
    [
        ((8, 0), (3, 0), None, True, "passed"),
        ((8, 2), (8, 2), None, False, "passed"),
        ((8, 2), (8, 2), None, True, "failed"),
        ((8, 2), (0, 0), None, False, "failed"),
        ((None, None), (None, None), None, False, "failed"),
        ((None, None), (None, None), "no such n-grams", True, "passed"),
    ],
)
def test_a_part_of_the_answers(
    answer: Make, drafted: Counts, accepted: Counts, abstains: str | None, *, wrong: bool, status: str
) -> None:
    """A part has to draft and be right by itself; to be wrong only where that is asked of it."""
    answers = [answer(draft_n=n, draft_n_accepted=k) for n, k in zip(drafted, accepted, strict=True)]
    verdict = vacuity.exercised(answers, what="from the cache", abstains=abstains, wrong=wrong)
    assert verdict.status == status


def test_a_vacuous_config_takes_its_identity_passes_along() -> None:
    """A pass of a config that proves nothing fails; other verdicts stay what they are."""
    vacuous = failed(vacuity.GATE, vacuity.VACUOUS, ["0 drafted"])
    assert vacuity.hold(passed("identity"), vacuous).text.startswith("identity: vacuous")
    assert vacuity.hold(passed("identity"), vacuous, kind="of a part").kind == "of a part"
    fault = failed("identity", "logic fault", [])
    assert vacuity.hold(fault, vacuous) is fault
    same = Verdict("identity", "passed")
    assert vacuity.hold(same, passed(vacuity.GATE)) is same

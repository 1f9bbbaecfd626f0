"""The gates: each asks for its evidence and has it judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_ngram.evidence import fingerprint as fingerprints
from pytest_ngram.evidence.goldens import Goldens, text_of
from pytest_ngram.evidence.runs import N_MAX_1, N_MAX_3, Runs
from pytest_ngram.judge import accounting, golden, identity, isolation, vacuity
from pytest_ngram.judge.golden import Asked, Fingerprint, PromptFile
from pytest_ngram.judge.identity import Seen, first_difference
from pytest_ngram.judge.types import STORED, Answer, Margin, Verdict, failed, passed, worst
from pytest_ngram.matrix.gates import GateCase, abstains_of, policy
from pytest_ngram.matrix.spec import BASELINE
from pytest_ngram.measure.models import handbuilt_spec
from pytest_ngram.models.handbuilt import rule


@dataclass(frozen=True)
class Gates:
    """One session's gates.

    Args:
        runs: asks servers.
        goldens: stored ids.
        update: whether goldens are to be written.
        command: what the user types to have them written.
    """

    runs: Runs
    goldens: Goldens
    update: bool
    command: str

    def control(self, case: GateCase) -> Verdict:
        """Return whether the baseline agrees with itself on two fresh servers."""
        one, two = self._controls(case)
        seen = Seen(expected=one.tokens, got=two.tokens, prompts=identity.same_prompt(None, one, two))
        kind = identity.classify(seen)
        if kind is None:
            return passed("control")
        lines = identity.describe(seen, ("first server", "second server"))
        return failed("control", "not repeatable", [*lines, "so nothing can be compared with this baseline"])

    def prompt(self, case: GateCase) -> Verdict:
        """Return whether template and tokenizer make the stored ids of a prompt; or store them."""
        answer = self._base(case)
        key = self._key(case.model)
        if not self.update:
            stored = self.goldens.prompts(case.model)
            got = (answer, self.runs.warmed(case.model, case.config)[_prompt(case)])
            return worst([golden.judge_prompt(stored, each, key, self.command) for each in got])
        path = self.goldens.store_prompt(
            case.model,
            PromptFile(made_with=self._made_with(), model=key, prompts={answer.prompt: answer.prompt_ids}),
        )
        return _stored(golden.PROMPT_GATE, path)

    def identity(self, case: GateCase) -> Verdict:
        """Return whether a drafting config's text is the baseline's, by the config's policy."""
        matrix = self.runs.servers.matrix
        how = policy(matrix, case.model, case.config)
        if how == "self":
            verdict = self._self_identity(case)
        else:
            verdicts = [
                self._against_baseline(case, got, how, self._fresh_agrees) for got in self._both(case)
            ]
            verdict = worst(verdicts)
        return vacuity.hold(verdict, self.vacuity(case))

    def prompt_cache(self, case: GateCase) -> Verdict:
        """Return whether a text given from the prompt cache is the baseline's without one."""
        got = self.runs.cached(case.model, case.config)[_prompt(case)]
        if not got.cache_n:
            return failed(
                "identity", vacuity.VACUOUS, ["no prompt token came from the cache, the second time"]
            )
        how = policy(self.runs.servers.matrix, case.model, case.config)
        verdict = self._against_baseline(case, got, how, lambda *_: False)
        if verdict.kind != identity.LOGIC_FAULT:
            return verdict
        # only now: the last token of a cached prompt is computed alone, so a near-tie may flip there rightly
        return self._against_baseline(case, got, how, self._fresh_agrees)

    def rule(self, case: GateCase) -> Verdict:
        """Return whether the hand-built model's text is the one that its rule computes."""
        got = self.runs.warmed(case.model, case.config)[_prompt(case)]
        spec = self.runs.servers.matrix.models[case.model].generate
        assert spec is not None  # noqa: S101 - such cases are of hand-built models only
        expected = rule(handbuilt_spec(spec)).continuation(got.prompt_ids, self._n_predict)
        seen = Seen(
            expected=tuple(expected),
            got=got.tokens,
            prompts=self._same_prompt(case, got),
            widths=_widths(got),
        )
        return identity.judge(seen, policy="strict", names=("the rule", case.config))

    def vacuity(self, case: GateCase) -> Verdict:
        """Return whether a config drafted, was right and was wrong, over all answers that identity judges.

        One that abstains does so in a run of the cells, so after other prompts: alone it may draft.
        """
        matrix = self.runs.servers.matrix
        abstains = abstains_of(matrix, case.model, case.config)
        if abstains is not None:
            warmed = tuple(self.runs.warmed(case.model, case.config).values())
            return vacuity.judge(warmed, abstains=abstains, never_rejected=None)
        prompts = self.runs.prompts(case.model)
        cases = [GateCase(case.model, case.config, prompt) for prompt in prompts]
        return vacuity.judge(
            [answer for each in cases for answer in self._both(each)],
            abstains=None,
            never_rejected=matrix.gates.never_rejected.get(case.group),
        )

    def after_others(self, case: GateCase) -> Verdict:
        """Return whether a prompt is answered and drafted for after others as on a fresh server."""
        prompts = self.runs.prompts(case.model)
        before = prompts[: prompts.index(_prompt(case))]
        alone = self.runs.fresh(case.model, case.config, _prompt(case))
        after = self.runs.warmed(case.model, case.config)[_prompt(case)]
        return isolation.judge(alone, after, what=f"after {', '.join(before)}")

    def three_times(self, case: GateCase) -> Verdict:
        """Return whether the same prompt is answered and drafted for equally three times over."""
        first, *again = self.runs.three_times(case.model, case.config, _prompt(case))
        verdicts = [
            isolation.judge(first, answer, what=f"the {word} time")
            for word, answer in zip(("second", "third"), again, strict=True)
        ]
        return worst(verdicts)

    def second_slot(self, case: GateCase) -> Verdict:
        """Return whether slot 1 answers as if nothing had been asked of slot 0."""
        first = self._other_prompt(case)
        alone, after = self.runs.second_slot(case.model, case.config, first, _prompt(case))
        return isolation.judge(
            alone, after, what=f"after {first} on slot 0", differ=isolation.DRAFTS_DIFFER_ON_ANOTHER_SLOT
        )

    def at_once(self, case: GateCase) -> Verdict:
        """Return whether two slots that work together give the texts that each gives alone."""
        first = self._other_prompt(case)
        answers = self.runs.at_once(case.model, case.config, first, _prompt(case))
        verdicts = [
            isolation.judge(
                self.runs.fresh(case.model, case.config, answer.prompt),
                answer,
                what=f"together with {other}",
                counts=False,
            )
            for answer, other in zip(answers, (_prompt(case), first), strict=True)
        ]
        return worst(verdicts)

    def accounting(self, case: GateCase) -> Verdict:
        """Return whether all counts of a request agree."""
        answer = self.runs.warmed(case.model, case.config)[_prompt(case)]
        return accounting.judge(answer, speculative=bool(self.runs.servers.matrix.configs[case.config].types))

    def golden(self, case: GateCase) -> Verdict:
        """Return whether the baseline's ids equal the golden of this fingerprint; or store them."""
        answer, print_ = self._base(case), self._fingerprint(case.model)
        if self.update:
            made = text_of(answer, print_, self._n_predict, self._made_with())
            return _stored(golden.GATE, self.goldens.store_text(case.model, made))
        asked = Asked(answer=answer, fingerprint=print_, n_predict=self._n_predict, update=self.command)
        stored = self.goldens.texts(case.model)
        expected = golden.chosen(asked, stored)
        if expected is None:
            return golden.judge(asked, stored, Seen(expected=(), got=answer.tokens))
        return golden.judge(asked, stored, self._seen(case, expected, answer))

    def _controls(self, case: GateCase) -> tuple[Answer, Answer]:
        one, two = (self.runs.warmed(case.model, BASELINE, again=again)[_prompt(case)] for again in (1, 2))
        return one, two

    def _both(self, case: GateCase) -> list[Answer]:
        """The config's answers after others and on a fresh server; to the first prompt they are one."""
        warmed = self.runs.warmed(case.model, case.config)[_prompt(case)]
        if case.prompt == self.runs.prompts(case.model)[0]:
            return [warmed]
        return [warmed, self.runs.fresh(case.model, case.config, _prompt(case))]

    def _base(self, case: GateCase) -> Answer:
        return self.runs.warmed(case.model, BASELINE)[_prompt(case)]

    def _against_baseline(
        self, case: GateCase, got: Answer, how: str, agrees: Callable[[GateCase, Answer], bool]
    ) -> Verdict:
        base = self._base(case)
        seen = self._seen(case, base.tokens, got)
        if seen.margin is not None or first_difference(seen.expected, seen.got) is not None:
            seen = msgspec.structs.replace(seen, fresh_agrees=agrees(case, base))
        return identity.judge(seen, policy=how, names=(BASELINE, case.config))

    def _self_identity(self, case: GateCase) -> Verdict:
        one, three = (
            self.runs.warmed(case.model, case.config, variant)[_prompt(case)]
            for variant in (N_MAX_1, N_MAX_3)
        )
        seen = Seen(
            expected=one.tokens,
            got=three.tokens,
            control=self.control(case).status == "passed",
            prompts=self._same_prompt(case, one, three),
            widths=_widths(three),
        )
        return identity.judge(seen, policy="strict", names=("n_max 1", "n_max 3"))

    def _seen(self, case: GateCase, expected: tuple[int, ...], got: Answer) -> Seen:
        """What is known of the first difference; only where there is one, more is asked of servers."""
        control = self.control(case).status == "passed"
        index = first_difference(expected, got.tokens)
        seen = Seen(expected=expected, got=got.tokens, control=control, widths=_widths(got))
        if index is None:
            return seen
        margin = self._margin(case, expected, index)
        return msgspec.structs.replace(
            seen,
            prompts=self._same_prompt(case, self._base(case), got),
            margin=margin,
            bound=self._bound(case.model) if margin is not None else None,
        )

    def _bound(self, model: str) -> float:
        """The hand-built model's leads are built to be out of rounding's reach: it has no near-ties."""
        handbuilt = self.runs.servers.matrix.models[model].generate is not None
        return 0.0 if handbuilt else self.runs.bound(model)

    def _margin(self, case: GateCase, expected: Sequence[int], index: int) -> Margin | None:
        """The baseline's lead at a place, where it got there by the same tokens."""
        text = self.runs.margins(case.model)[_prompt(case)]
        same_way = text.tokens[:index] == tuple(expected[:index])
        return text.margins[index] if same_way and index < len(text.margins) else None

    def _fresh_agrees(self, case: GateCase, base: Answer) -> bool:
        return self.runs.fresh(case.model, case.config, _prompt(case)).tokens == base.tokens

    def _same_prompt(self, case: GateCase, *answers: Answer) -> bool:
        stored = self.goldens.prompts(case.model)
        ids = stored.prompts.get(_prompt(case)) if stored is not None and not self.update else None
        return identity.same_prompt(ids, *answers)

    def _other_prompt(self, case: GateCase) -> str:
        return next((name for name in self.runs.prompts(case.model) if name != case.prompt), _prompt(case))

    @property
    def _n_predict(self) -> int:
        return self.runs.servers.matrix.gates.n_predict

    def _key(self, model: str) -> str:
        servers = self.runs.servers
        return fingerprints.model_key(servers.matrix.models[model], servers.models.open(model))

    def _fingerprint(self, model: str) -> Fingerprint:
        def look() -> Fingerprint:
            servers = self.runs.servers
            server = servers.start(model, BASELINE)
            try:
                return fingerprints.fingerprint(
                    servers.matrix.models[model],
                    servers.matrix.configs[BASELINE],
                    servers.models.open(model),
                    server.engine,
                    servers.factory.vocabulary,
                )
            finally:
                server.stop()

        return self.runs.store.once(f"{model}/fingerprint", Fingerprint, look)

    def _made_with(self) -> str:
        return self.runs.servers.factory.build.name


def _prompt(case: GateCase) -> str:
    assert case.prompt is not None  # noqa: S101 - such gates are asked for prompts
    return case.prompt


def _widths(answer: Answer) -> tuple[int, int] | None:
    return answer.trace.widths if answer.trace is not None else None


def _stored(gate: str, path: Path) -> Verdict:
    """A golden that was just made proves nothing, so it is no pass."""
    return Verdict(
        gate, "not checked", STORED, (f"written to {path.name}: review it, and run without the option",)
    )

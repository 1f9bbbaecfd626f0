"""The gates: each asks for its evidence and has it judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_ngram.evidence import fingerprint as fingerprints
from pytest_ngram.evidence.differences import Differences
from pytest_ngram.evidence.goldens import Goldens, text_of
from pytest_ngram.evidence.runs import N_MAX_1, N_MAX_3, Runs
from pytest_ngram.judge import accounting, golden, identity, vacuity
from pytest_ngram.judge.golden import Asked, Fingerprint, PromptFile
from pytest_ngram.judge.identity import Seen, first_difference
from pytest_ngram.judge.types import STORED, Answer, Verdict, failed, passed, worst
from pytest_ngram.matrix.gates import GateCase, abstains_of, policy, prompt_of
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
        strict_golden: whether it fails a gate that no golden is of this engine's family.
    """

    runs: Runs
    goldens: Goldens
    update: bool
    command: str
    strict_golden: bool = False

    @property
    def differences(self) -> Differences:
        """What is asked only where two texts part."""
        return Differences(self.runs)

    def control(self, case: GateCase) -> Verdict:
        """Return whether the baseline agrees with itself on two fresh servers."""
        one, two = self._controls(case)
        seen = Seen(expected=one.tokens, got=two.tokens, prompts=identity.same_prompt(None, one, two))
        kind = identity.classify(seen)
        if kind is None:
            return passed("control")
        seen = self.differences.shown(case, seen)
        lines = identity.describe(seen, ("first server", "second server"))
        return failed("control", "not repeatable", [*lines, "so nothing can be compared with this baseline"])

    def prompt(self, case: GateCase) -> Verdict:
        """Return whether template and tokenizer make the stored ids of a prompt; or store them."""
        answer = self._base(case)
        key = self._key(case.model)
        if not self.update:
            stored = self.goldens.prompts(case.model)
            got = (answer, self.runs.warmed(case.model, case.config)[prompt_of(case)])
            return worst([golden.judge_prompt(stored, each, key, self.command) for each in got])
        if not identity.same_prompt(None, *self._controls(case)):
            return golden.refused(golden.PROMPT_GATE, ["two servers of the baseline made other ids of it"])
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
            verdict = vacuity.hold(self._self_identity(case), self._self_vacuity(case))
        else:
            verdicts = [
                self._against_baseline(case, got, how, self._fresh_agrees) for got in self._both(case)
            ]
            verdict = worst(verdicts)
        return vacuity.hold(verdict, self.vacuity(case))

    def prompt_cache(self, case: GateCase) -> Verdict:
        """Return whether a text given from the prompt cache is the baseline's without one."""
        got = self.runs.cached(case.model, case.config)[prompt_of(case)]
        if not got.cache_n:
            return failed(
                "identity", vacuity.VACUOUS, ["no prompt token came from the cache, the second time"]
            )
        how = policy(self.runs.servers.matrix, case.model, case.config)
        verdict = self._against_baseline(case, got, how, lambda *_: False)
        if verdict.kind == identity.LOGIC_FAULT:
            # only now: the last token of a cached prompt is computed alone, so a near-tie may flip there
            verdict = self._against_baseline(case, got, how, self._fresh_agrees)
        if case.config == BASELINE:
            return verdict
        verdict = vacuity.hold(verdict, self.vacuity(case))
        return vacuity.hold(verdict, self._cached_vacuity(case), kind=vacuity.VACUOUS_FROM_CACHE)

    def rule(self, case: GateCase) -> Verdict:
        """Return whether the hand-built model's text is the one that its rule computes."""
        got = self.runs.warmed(case.model, case.config)[prompt_of(case)]
        spec = self.runs.servers.matrix.models[case.model].generate
        assert spec is not None  # noqa: S101 - such cases are of hand-built models only
        expected = rule(handbuilt_spec(spec)).continuation(got.prompt_ids, self._n_predict)
        seen = Seen(
            expected=tuple(expected),
            got=got.tokens,
            prompts=self._same_prompt(case, got),
            widths=_widths(got),
        )
        seen = self.differences.shown(case, seen)
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

    def accounting(self, case: GateCase) -> Verdict:
        """Return whether all counts of a request agree."""
        answer = self.runs.warmed(case.model, case.config)[prompt_of(case)]
        return accounting.judge(answer, speculative=bool(self.runs.servers.matrix.configs[case.config].types))

    def golden(self, case: GateCase) -> Verdict:
        """Return whether the baseline's ids equal the golden of this fingerprint; or store them."""
        if self.update and (contradicted := self._contradicted(case)):
            return golden.refused(golden.GATE, contradicted)
        answer, print_ = self._base(case), self._fingerprint(case.model)
        if self.update:
            made = text_of(answer, print_, self._n_predict, self._made_with())
            return _stored(golden.GATE, self.goldens.store_text(case.model, made))
        asked = Asked(
            answer=answer,
            fingerprint=print_,
            n_predict=self._n_predict,
            update=self.command,
            strict=self.strict_golden,
        )
        stored = self.goldens.texts(case.model)
        expected = golden.chosen(asked, stored)
        if expected is None:
            return golden.judge(asked, stored, Seen(expected=(), got=answer.tokens))
        return golden.judge(asked, stored, self._seen(case, expected, answer))

    def _contradicted(self, case: GateCase) -> list[str]:
        """Return what speaks against a text of the baseline: neither a fault nor chance becomes a golden."""
        control = self.control(case)
        if control.status != "passed":
            return ["another server of the baseline contradicts it:", *control.lines]
        if self.runs.servers.matrix.models[case.model].generate is None:
            return []
        ruled = self.rule(case)
        return [] if ruled.status == "passed" else ["the model's rule contradicts it:", *ruled.lines]

    def _controls(self, case: GateCase) -> tuple[Answer, Answer]:
        one, two = (self.runs.warmed(case.model, BASELINE, again=again)[prompt_of(case)] for again in (1, 2))
        return one, two

    def _both(self, case: GateCase) -> list[Answer]:
        """The config's answers after others and on a fresh server; to the first prompt they are one."""
        warmed = self.runs.warmed(case.model, case.config)[prompt_of(case)]
        if case.prompt == self.runs.prompts(case.model)[0]:
            return [warmed]
        return [warmed, self.runs.fresh(case.model, case.config, prompt_of(case))]

    def _base(self, case: GateCase) -> Answer:
        return self.runs.warmed(case.model, BASELINE)[prompt_of(case)]

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
            self.runs.warmed(case.model, case.config, variant)[prompt_of(case)]
            for variant in (N_MAX_1, N_MAX_3)
        )
        seen = Seen(
            expected=one.tokens,
            got=three.tokens,
            control=self.control(case).status == "passed",
            prompts=self._same_prompt(case, one, three),
            widths=_widths(three),
        )
        seen = self.differences.shown(case, seen)
        return identity.judge(seen, policy="strict", names=("n_max 1", "n_max 3"))

    def _self_vacuity(self, case: GateCase) -> Verdict:
        """Return whether what the policy `self` compares was drafted for, rightly and wrongly."""
        never_rejected = self.runs.servers.matrix.gates.never_rejected.get(case.group)
        verdicts = [
            self._exercised(
                case, self.runs.warmed(case.model, case.config, variant), variant.name, never_rejected is None
            )
            for variant in (N_MAX_1, N_MAX_3)
        ]
        return worst(verdicts)

    def _cached_vacuity(self, case: GateCase) -> Verdict:
        """Return whether answers from the prompt cache were drafted for, and some of that was right."""
        cached = self.runs.cached(case.model, case.config)
        return self._exercised(case, cached, "from the prompt cache", False)

    def _exercised(self, case: GateCase, answers: dict[str, Answer], what: str, wrong: bool) -> Verdict:
        abstains = abstains_of(self.runs.servers.matrix, case.model, case.config)
        return vacuity.exercised(tuple(answers.values()), what=what, abstains=abstains, wrong=wrong)

    def _seen(self, case: GateCase, expected: tuple[int, ...], got: Answer) -> Seen:
        """What is known of the first difference; only where there is one, more is asked of servers."""
        control = self.control(case).status == "passed"
        index = first_difference(expected, got.tokens)
        seen = Seen(expected=expected, got=got.tokens, control=control, widths=_widths(got))
        if index is None:
            return seen
        margin = self.differences.margin(case, expected, index)
        return msgspec.structs.replace(
            seen,
            prompts=self._same_prompt(case, self._base(case), got),
            margin=margin,
            bound=self.differences.bound(case.model) if margin is not None else None,
        )

    def _fresh_agrees(self, case: GateCase, base: Answer) -> bool:
        return self.runs.fresh(case.model, case.config, prompt_of(case)).tokens == base.tokens

    def _same_prompt(self, case: GateCase, *answers: Answer) -> bool:
        stored = self.goldens.prompts(case.model)
        ids = stored.prompts.get(prompt_of(case)) if stored is not None and not self.update else None
        return identity.same_prompt(ids, *answers)

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


def _widths(answer: Answer) -> tuple[int, int] | None:
    return answer.trace.widths if answer.trace is not None else None


def _stored(gate: str, path: Path) -> Verdict:
    """A golden that was just made proves nothing, so it is no pass."""
    return Verdict(
        gate, "not checked", STORED, (f"written to {path.name}: review it, and run without the option",)
    )

"""All that the gates of one session share, put together once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.errors import NgramError, OptionError
from pytest_ngram.evidence import issues
from pytest_ngram.evidence.gates import Gates
from pytest_ngram.evidence.goldens import Goldens
from pytest_ngram.evidence.isolation import Isolation
from pytest_ngram.evidence.reproductions import ASKED_TYPES, Reproductions
from pytest_ngram.evidence.runs import Chat, Runs
from pytest_ngram.evidence.seam import Seam
from pytest_ngram.evidence.servers import GateServers
from pytest_ngram.evidence.store import EvidenceStore
from pytest_ngram.judge import known_issues
from pytest_ngram.judge.known_issues import KnownIssue, Reproduced
from pytest_ngram.judge.types import Verdict
from pytest_ngram.matrix.gates import GateCase, Over, cases, models_of, prompts_of
from pytest_ngram.measure.setup import Setup


@dataclass(frozen=True)
class Places:
    """Folders and files of the gates.

    Args:
        gates: where the gate tests, `golden/` and `known_issues.yaml` are.
        golden: of stored ids.
        session: evidence of this session, shared by its workers.
        cache: generated models and hashes.
    """

    gates: Path
    golden: Path
    session: Path
    cache: Path


class GateRoom:
    """The gates of a session.

    Args:
        setup: the matrix and its prompts.
        chosen: models that the user wants; empty means all.
        servers: starts fresh servers.
        places: folders.
        update: whether goldens are to be written.
        command: what the user types to have them written.
        strict_golden: whether it fails a gate that no golden is of this engine's family.
    """

    def __init__(
        self,
        setup: Setup,
        chosen: Sequence[str],
        servers: GateServers,
        places: Places,
        *,
        update: bool,
        command: str,
        strict_golden: bool = False,
    ) -> None:
        self._setup = setup
        self._chosen = chosen or tuple(setup.matrix.models)
        if not self.models:
            named = setup.matrix.gates.models
            raise OptionError(
                "there is no model that the gates could ask",
                checked=[
                    f"models chosen: {', '.join(self._chosen)}",
                    f"gates.models: {', '.join(setup.matrix.models if named is None else named) or '(none)'}",
                ],
                fix="choose a model that gates.models names, or add it there",
            )
        self.servers = servers
        self.store = EvidenceStore(places.session)
        self.issues = issues.read(places.gates / "known_issues.yaml", ASKED_TYPES)
        runs = Runs(servers, self.store, self._chat, self._prompts)
        goldens = Goldens(places.golden, places.session / "golden.lock")
        self.gates = Gates(runs, goldens, update, command, strict_golden)
        self.isolation = Isolation(runs)
        scratch = places.session / "scratch"
        self.reproductions = Reproductions(servers, places.cache, scratch)
        self.seam = Seam(
            servers, self.store, cache=places.cache, scratch=scratch, symbols=setup.matrix.gates.symbols
        )

    def cases(self, over: Over) -> list[GateCase]:
        """Return the cases of a gate."""
        return cases(self._setup.matrix, self._chosen, self._prompt_ids(), over)

    @property
    def models(self) -> list[str]:
        """The models that the gates ask."""
        return models_of(self._setup.matrix, self._chosen)

    def known_issue(self, name: str) -> Verdict:
        """Return whether the build behaves as an entry of the known issues says."""
        (issue,) = [issue for issue in self.issues if issue.id == name]
        offered = self.servers.factory.build.spec_types
        if offered and not set(issue.types) & set(offered):
            line = f"the build does not offer {', '.join(issue.types)}"
            return Verdict(known_issues.GATE, "not checked", "not offered", (line,))
        return known_issues.judge(issue, self._reproduced(issue), self.build)

    def explained(self, verdict: Verdict, case: GateCase | None) -> Verdict:
        """Return a failure that a known issue of the config's types causes as that."""
        types = self._setup.matrix.configs[case.config].types if case is not None else ()
        return known_issues.explain(verdict, self.issues, types, self.build, self._shows)

    @property
    def build(self) -> str | None:
        """What its user calls the build where that is a number, else what it calls itself."""
        factory = self.servers.factory
        return known_issues.named(factory.build.build, factory.choice.label)

    def _reproduced(self, issue: KnownIssue) -> Reproduced:
        return self.store.once(
            f"issue/{issue.id}", Reproduced, lambda: self.reproductions.run(issue.reproduce)
        )

    def _shows(self, issue: KnownIssue) -> bool:
        """Whether this build was seen to have an issue; its own gate says why where it could not be told."""
        try:
            return bool(self._reproduced(issue).shown)
        except NgramError:
            return False

    def _chat(self, prompt: str) -> Chat:
        for prompt_set in self._setup.prompt_sets.values():
            for each in prompt_set.prompts:
                if each.id == prompt:
                    return prompt_set.chat(each), self._setup.tools[prompt]
        raise KeyError(prompt)

    def _prompts(self, model: str) -> list[str]:
        return [name for _, name in prompts_of(self._setup.matrix, model, self._prompt_ids())]

    def _prompt_ids(self) -> dict[str, list[str]]:
        return {name: [p.id for p in found.prompts] for name, found in self._setup.prompt_sets.items()}

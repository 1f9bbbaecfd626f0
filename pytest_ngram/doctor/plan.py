"""Looks at what the matrix wants: its models, what their servers need, and what will be refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ngram.doctor.engine import Looked, of_error
from pytest_ngram.doctor.line import Line, fail, ok, warn
from pytest_ngram.doctor.project import Project
from pytest_ngram.doctor.room_lines import Need
from pytest_ngram.engine import compare, preflight
from pytest_ngram.engine.flags import Parsed
from pytest_ngram.errors import ModelError, NgramError
from pytest_ngram.init.matrix_text import describe, matrix_text
from pytest_ngram.init.write import own_model
from pytest_ngram.matrix.spec import ConfigSpec, ModelSpec, SourceSpec
from pytest_ngram.measure import sources
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.servers import compose_argv, need_of_start_bytes
from pytest_ngram.measure.setup import Setup, read_setup
from pytest_ngram.measure.unfit import unfit
from pytest_ngram.models.gguf_file import ModelFacts, inspect
from pytest_ngram.models.vocabulary import token_lists_differ_at
from pytest_ngram.shipped import shipped

_DRAFT = Path("draft.gguf")  # the name of a draft model of which nothing else is known


@dataclass
class Plan:
    """What was found of the matrix.

    Args:
        lines: as far as nothing of the host has a say.
        needs: by model, what the servers of its configs need.
        threads: by model the most that `-t` or `-tb` ask for; 0 where that is left to llama.cpp.
        join_bytes: of models in parts, which are put together in the cache.
    """

    lines: list[Line] = field(default_factory=list)
    needs: dict[str, list[Need]] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    join_bytes: int = 0


def of_matrix(project: Project, engine: Looked, cache: Path) -> Plan:
    """Look at the models and configs that a run of the project's profile would measure."""
    plan = Plan()
    try:
        setup = read_setup(project.matrix, project.profile, project.models, engine.vocabulary)
    except NgramError as error:
        plan.lines.append(of_error("matrix", error))
        return plan
    plan.lines.append(_matrix_line(project, setup))
    _Look(plan, setup, engine, project, cache).at_all()
    return plan


def of_file(path: Path, project: Project, engine: Looked, cache: Path) -> Plan:
    """Look at a model file with the flags and configs that `init` would write for it."""
    plan = Plan()
    try:
        template = shipped("matrix.yaml").read_text(encoding="utf-8")
        model = own_model(path, template)
        with tempfile.TemporaryDirectory(prefix="pytest-ngram-doctor-") as folder:
            matrix = Path(folder) / "matrix.yaml"
            matrix.write_text(matrix_text(template, Path(folder), model, None), encoding="utf-8")
            setup = read_setup(matrix, project.profile, [model.name], engine.vocabulary)
    except NgramError as error:
        plan.lines.append(of_error("model" if isinstance(error, ModelError) else "matrix", error))
        return plan
    flags = f"{model.advice.flags} and {', '.join(model.advice.configs)}"
    plan.lines.append(ok("matrix", f"none is looked at; as `init` would write it: {flags}"))
    _Look(plan, setup, engine, project, cache).at_all()
    return plan


def _matrix_line(project: Project, setup: Setup) -> Line:
    models = dict.fromkeys(cell.start.model for cell in setup.cells)
    found = f"{project.matrix}, profile {project.profile}: {', '.join(models)}; {len(setup.cells)} cells"
    if project.own:
        return ok("matrix", found)
    return warn(
        "matrix",
        f"the project has none; looking at the plugin's own, profile {project.profile}: {', '.join(models)}",
        "write one with `pytest-ngram init --model FILE`, or name it: --matrix FILE",
    )


@dataclass(frozen=True)
class _Look:
    """Looks at the models and starts of a setup, and notes in `plan` what it finds."""

    plan: Plan
    setup: Setup
    engine: Looked
    project: Project
    cache: Path

    def at_all(self) -> None:
        """Look at everything that the profile measures."""
        cells = self.setup.cells
        for name in dict.fromkeys(cell.start.model for cell in cells):
            facts = self._at_model(name)
            configs = list(dict.fromkeys(cell.start.config for cell in cells if cell.start.model == name))
            self._at_starts(name, configs, facts)
        models = Models(self.setup.matrix, self.setup.base, self.cache)
        self.plan.lines += [
            fail("model", text, "leave these configs or prompt sets out for this model")
            for text in unfit(self.setup, models, cells)
        ]
        self.plan.lines += [
            fail("table" if text.startswith("tables.") else "model", text, "correct its path in the matrix")
            for text in self.setup.missing_files(cells)
            if text.startswith("tables.") or ".draft" in text.partition(":")[0]
        ]

    def _at_model(self, name: str) -> ModelFacts | None:
        try:
            facts, text, join_bytes = _facts(self.setup.matrix.models[name], self.setup.base, self.cache)
        except ModelError as error:
            where = f" ({error.checked[0]})" if error.checked else ""
            self.plan.lines.append(fail("model", f"{name}: {error.cause}{where}", error.fix))
            return None
        self.plan.join_bytes += join_bytes
        self.plan.lines.append(ok("model", f"{name}: {text}"))
        return facts

    def _at_starts(self, name: str, configs: Sequence[str], facts: ModelFacts | None) -> None:
        refused: dict[tuple[str, str], list[str]] = {}
        warned: dict[str, list[str]] = {}
        for config in configs:
            try:
                for text in self._at_start(name, config, facts):
                    warned.setdefault(text, []).append(config)
            except NgramError as error:
                what = f" ({error.checked[0]})" if self.engine.at_url and error.checked else ""
                refused.setdefault((f"{error.cause}{what}", error.fix), []).append(config)
        self.plan.lines += refusals(name, refused, len(configs), at_url=self.engine.at_url)
        self.plan.lines += [
            warn(
                "config", f"{name}/{','.join(of)}: {text}", "change the flag in the matrix if it is not meant"
            )
            for text, of in warned.items()
        ]

    def _at_start(self, name: str, config_name: str, facts: ModelFacts | None) -> tuple[str, ...]:
        """Note what a start needs, and return what should be known of it.

        Raises:
            NgramError: it will be refused.
        """
        spec, config = self.setup.matrix.models[name], self.setup.matrix.configs[config_name]
        vocabulary = self.engine.vocabulary
        table, draft = _table(self.setup, config), _draft(self.setup, spec, config)
        path = facts.path if facts is not None else Path(f"{name}.gguf")
        draft_path = draft.path if draft is not None else _DRAFT if config.needs_draft_model else None
        argv = compose_argv(path, spec, config, table, vocabulary, draft_path=draft_path)
        parsed = vocabulary.parse(argv)
        self._against_engine(parsed, argv, facts)
        if not self.engine.at_url:
            threads = max(parsed.get("threads", 0), parsed.get("threads-batch", 0))
            self.plan.threads[name] = max(threads, self.plan.threads.get(name, 0))
        if facts is None or preflight.lacks_mtp(facts.nextn, parsed):  # told by `unfit`
            return ()
        if not self.engine.at_url:
            need = _need(config_name, facts, draft, table, parsed)
            self.plan.needs.setdefault(name, []).append(need)
        if draft is not None:
            differ_at = token_lists_differ_at(facts, draft, preflight.VOCAB_CHECK_FROM)
            preflight.check_draft(facts, draft, differ_at)
        elif config.needs_draft_model:  # one that is not there is told with the missing files
            return ()
        return preflight.check(facts, parsed)

    def _against_engine(self, parsed: Parsed, argv: tuple[str, ...], facts: ModelFacts | None) -> None:
        """Refuse what the build does not offer, or what the server at the URL was not started with."""
        if self.engine.factory is not None:
            self.engine.factory.check(parsed.spec_types, argv)
        if self.engine.seen is not None:
            n_vocab, n_bytes = (facts.n_vocab, facts.tensor_bytes) if facts is not None else (None, None)
            told = self.project.told
            compare.check_start(argv, self.engine.seen, told=told, n_vocab=n_vocab, tensor_bytes=n_bytes)


def refusals(
    model: str, refused: Mapping[tuple[str, str], list[str]], n_configs: int, *, at_url: bool
) -> Iterator[Line]:
    """Return a line for each reason for which configs cannot be measured. Pure.

    A server at a URL keeps its own flags, so most configs do not fit it: that fails only if none does.

    Args:
        model: its id.
        refused: configs by cause and what to do.
        n_configs: how many there are.
        at_url: whether the server is one at a URL.
    """
    n_refused = sum(map(len, refused.values()))
    judge = warn if at_url and n_refused < n_configs else fail
    for (cause, fix), configs in refused.items():
        yield judge("config", f"{model}/{','.join(configs)} cannot be measured: {cause}", fix)


def _facts(source: SourceSpec, base: Path, cache: Path) -> tuple[ModelFacts | None, str, int]:
    """Return a model's facts, what to say of it, and the bytes that putting it together takes.

    Raises:
        ModelError: a file is missing or damaged.
    """
    if source.generate is not None:
        return None, "hand-built by the plugin, made when it is first needed", 0
    if not source.parts:
        facts = inspect(sources.locate(source, base))
        return facts, describe(facts), 0
    parts = [sources.locate(part, base) for part in source.parts]
    gone = [str(part) for part in parts if not part.is_file()]
    if gone:
        raise ModelError(f"{len(gone)} of its {len(parts)} parts are missing", checked=gone, fix="fetch them")
    total = sum(part.stat().st_size for part in parts)
    made = any(each.stat().st_size == total for each in (cache / "models").glob("*.gguf"))
    where = "a file of this size is in the cache" if made else "they will be put together in the cache"
    text = f"{len(parts)} parts, {total / 1e6:.0f} MB; {where}"
    return None, text, 0 if made else total


def _draft(setup: Setup, spec: ModelSpec, config: ConfigSpec) -> ModelFacts | None:
    """Return the facts of the model that a config drafts with; None if it is not there, or yet to be made."""
    source = spec.draft
    if not config.needs_draft_model or source is None or source.generate is not None or source.parts:
        return None
    path = sources.locate(source, setup.base)
    return inspect(path) if path.is_file() else None


def _table(setup: Setup, config: ConfigSpec) -> Path | None:
    """Return the table that is there already; one that is to be built has no size yet."""
    file = setup.matrix.tables[config.table].file if config.table is not None else None
    path = sources.locate(file, setup.base) if file is not None else None
    return path if path is not None and path.is_file() else None


def _need(
    config: str, facts: ModelFacts, draft: ModelFacts | None, table: Path | None, parsed: Parsed
) -> Need:
    """Return what a start needs. A table takes at least the size of its file."""
    own = need_of_start_bytes(facts, parsed)
    own += need_of_start_bytes(draft, parsed, draft=True) if draft is not None else 0
    own += table.stat().st_size if table is not None else 0
    return Need(config, facts.size_bytes + (draft.size_bytes if draft is not None else 0), own)

"""What a session can measure: the matrix, its prompts, and the cells of one profile in order."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from pytest_ngram.engine.vocabulary import EmbeddedFlags, Vocabulary
from pytest_ngram.errors import EngineError, MatrixError, ModelError, OptionError
from pytest_ngram.matrix.plan import PlannedCell, Start, plan
from pytest_ngram.matrix.prompts import PromptSet
from pytest_ngram.matrix.spec import BASELINE, FileSpec, MatrixSpec, ModelSpec, SourceSpec, TableSpec
from pytest_ngram.measure import equal, sources
from pytest_ngram.measure.echo import read_echo
from pytest_ngram.measure.models import handbuilt_spec
from pytest_ngram.measure.servers import compose_argv
from pytest_ngram.record import ECHO, Cell


@dataclass(frozen=True)
class Setup:
    """A matrix with all that it names read in.

    Args:
        base: the folder of the matrix file, from which its paths start.
        sha256: of everything that decides what is asked: the matrix and the prompt sets.
        cells: of the profile, in the order in which they run.
        tools: tool schemas by prompt id.
        equal_configs: groups of config ids that are one configuration to llama.cpp.
    """

    matrix: MatrixSpec
    base: Path
    sha256: str
    profile: str
    prompt_sets: Mapping[str, PromptSet]
    tools: Mapping[str, list[dict[str, Any]]]
    cells: tuple[PlannedCell, ...]
    equal_configs: tuple[tuple[str, ...], ...] = ()

    def equal_lines(self, cells: Iterable[Cell]) -> list[str]:
        """Say which configs of some cells are one configuration to llama.cpp."""
        chosen = [(cell.model, cell.config) for cell in cells]
        return equal.lines(self.matrix, self.equal_configs, chosen)

    def left_out_lines(self) -> list[str]:
        """Say which models and configs the profile leaves to other profiles, and which no model runs."""
        profile = self.matrix.profiles[self.profile]
        unused = self.matrix.unused_configs()
        needy = [name for name in unused if self._lacks_draft_model(name)]
        plain = [name for name in unused if name not in needy]
        told = (
            ("models", self.matrix.models, profile.models),
            ("configs", self.matrix.configs, profile.configs),
        )
        left = [
            (what, [name for name in known if name not in (chosen or known) and name not in unused])
            for what, known, chosen in told
        ]
        lines = [(f"{what} that profile {self.profile} leaves out: ", names, "") for what, names in left]
        why = "; they draft with a second model: give a model a `draft`"
        lines += [
            ("configs that no model runs: ", plain, "; name them in a model's `configs`"),
            ("configs that no model runs: ", needy, why),
        ]
        return [f"{before}{', '.join(names)}{after}" for before, names, after in lines if names]

    def _lacks_draft_model(self, config: str) -> bool:
        """Whether a config needs a second model, which no model has."""
        needs = self.matrix.configs[config].needs_draft_model
        return needs and not any(model.draft for model in self.matrix.models.values())

    def servers(self) -> list[str]:
        """Return `model/config` of every server of the run, each once, in the matrix's order."""
        models = {cell.start.model for cell in self.cells}
        return [
            f"{model}/{config}"
            for model in self.matrix.models
            if model in models
            for config in self.matrix.configs_of(model, self.profile)
        ]

    def start_of(self, name: str) -> Start:
        """Return a start by its id, or by `model/config`, which means the first of the run.

        Raises:
            OptionError: the matrix has no such start.
        """
        for cell in self.cells:
            if name in (cell.start.id, f"{cell.start.model}/{cell.start.config}"):
                return cell.start
        raise OptionError(
            f"the matrix has no server {name!r}",
            checked=[f"allowed: {', '.join(self.servers())}"],
            fix="name a model and one of its configs, as `model/config`",
        )

    def prompt_set(self, name: str) -> PromptSet:
        """Return a prompt set by its id. Raises `OptionError` for one that the matrix lacks."""
        _known("prompt set", [name], self.prompt_sets, self.base)
        return self.prompt_sets[name]

    def table_spec(self, name: str) -> TableSpec:
        """Return a table of the matrix by its id. Raises `OptionError` for one that it lacks."""
        _known("table", [name], self.matrix.tables, self.base)
        return self.matrix.tables[name]

    def missing_files(self, cells: Iterable[PlannedCell]) -> list[str]:
        """Say which files of some cells are not there, so that it is known before the first is measured."""
        cells = list(cells)
        wanted: dict[str, FileSpec | SourceSpec] = {}
        for name, config in dict.fromkeys((cell.start.model, cell.start.config) for cell in cells):
            model = self.matrix.models[name]
            wanted[f"models.{name}"] = model
            if model.draft is not None and self.matrix.configs[config].needs_draft_model:
                wanted[f"models.{name}.draft"] = model.draft
            table = self.matrix.configs[config].table
            if table is not None:
                spec = self.matrix.tables[table]
                files = spec.corpora if spec.file is None else (spec.file,)
                for i, source in enumerate(files):
                    wanted[f"tables.{table}" + (f".corpus[{i}]" if len(files) > 1 else "")] = source
        said = (sources.missing(source, self.base, place) for place, source in wanted.items())
        return [problem for problem in said if problem is not None]

    def words_of(self, model: str) -> dict[str, tuple[str, ...]]:
        """Return the turns of every prompt of a model by its id: its own words, without any system prompt."""
        sets = [*self.matrix.prompt_sets_of(model), ECHO]
        return {
            prompt.id: tuple(turn.content for turn in prompt.messages if turn.role != "system")
            for name in sets
            if name in self.prompt_sets
            for prompt in self.prompt_sets[name].prompts
        }

    def chat_of(self, cell: PlannedCell) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
        """Return the messages of a cell's prompt, system prompt first, and its tool schemas."""
        prompt_set = self.prompt_sets[cell.prompt_set]
        (prompt,) = [prompt for prompt in prompt_set.prompts if prompt.id == cell.prompt]
        return prompt_set.chat(prompt), self.tools[cell.prompt]


def read_setup(
    matrix_path: Path, profile: str, models: Sequence[str] = (), vocabulary: Vocabulary | None = None
) -> Setup:
    """Read a matrix and plan one profile of it.

    Args:
        matrix_path: the matrix file.
        profile: one of its profiles.
        models: ids to keep; empty keeps all.
        vocabulary: the flags that the engine takes; the embedded engine's where none is given.

    Raises:
        MatrixError: the matrix or a prompt set is wrong.
        OptionError: no such profile or model.
    """
    matrix, _text = sources.read_matrix(matrix_path)
    base = matrix_path.parent
    _known("profile", [profile], matrix.profiles, matrix_path)
    _known("model", models, matrix.models, matrix_path)
    chosen = models or matrix.models_of(profile)
    _known(f"model of profile {profile!r}:", chosen, dict.fromkeys(matrix.models_of(profile)), matrix_path)
    _check_comparable(matrix, profile, chosen, matrix_path.name)
    vocabulary = vocabulary or EmbeddedFlags()
    _check_starts(matrix, profile, chosen, matrix_path.name, vocabulary)
    prompt_sets = sources.read_prompt_sets(matrix, base)
    _check_warmup(matrix, prompt_sets, matrix_path.name)
    tools: dict[str, list[dict[str, Any]]] = {}
    for name, prompt_set in prompt_sets.items():
        tools |= sources.read_tools(prompt_set, matrix.prompt_sets[name], base)
    ids = {name: [prompt.id for prompt in found.prompts] for name, found in prompt_sets.items()}
    echo, echo_ids = read_echo(matrix, profile, chosen, base, others=prompt_sets, file=matrix_path.name)
    if echo is not None:
        prompt_sets[ECHO] = echo
        tools |= {prompt.id: [] for prompt in echo.prompts}
    cells = [cell for cell in plan(matrix, profile, ids, echo_ids) if cell.start.model in chosen]
    return Setup(
        matrix=matrix,
        base=base,
        sha256=_digest(matrix, prompt_sets, tools),
        profile=profile,
        prompt_sets=prompt_sets,
        tools=tools,
        cells=tuple(cells),
        equal_configs=equal.equal_configs(matrix, _in_order(matrix, cells), vocabulary),
    )


def _known(what: str, names: Sequence[str], known: Mapping[str, object], path: Path) -> None:
    for name in names:
        if name not in known:
            near = _near(name, known)
            raise OptionError(
                f"the matrix has no {what} {name!r}",
                checked=[str(path), f"allowed: {', '.join(known)}"],
                fix=f"did you mean {near!r}?" if near else f"name one of its {what}s",
            )


def _near(name: str, known: Iterable[str]) -> str | None:
    """What was meant, if that is plain: the only one that begins so, else one that is spelled alike."""
    known = list(known)
    longer = [each for each in known if name and each.startswith(name.lower())]
    alike = difflib.get_close_matches(name, known, n=1)
    return longer[0] if len(longer) == 1 else next(iter(alike), None)


def _in_order(matrix: MatrixSpec, cells: Iterable[PlannedCell]) -> list[str]:
    planned = {cell.start.config for cell in cells}
    return [name for name in matrix.configs if name in planned]


def _check_comparable(matrix: MatrixSpec, profile: str, models: Sequence[str], file: str) -> None:
    """A profile that leaves a model with nothing to compare would measure it for nothing."""
    for model in models:
        configs = matrix.configs_of(model)
        if matrix.configs_of(model, profile) == (BASELINE,) != configs:
            raise MatrixError(
                f"{file}: profiles.{profile}.configs: leaves model {model!r} with {BASELINE!r} alone",
                checked=[f"configs of {model}: {', '.join(configs)}"],
                fix="add one of them, or choose models: the profile's `models`, or --ngram-models",
            )


def _check_starts(
    matrix: MatrixSpec, profile: str, models: Sequence[str], file: str, vocabulary: Vocabulary
) -> None:
    """Compose every command line and every generated model's parameters now, not hours later."""
    for name in models:
        model = matrix.models[name]
        for place, source in ((name, model), (f"{name}.draft", model.draft)):
            if source is not None and source.generate is not None:
                with _told_of(f"{file}: models.{place}.generate"):
                    handbuilt_spec(source.generate)
        for config_name in matrix.configs_of(name, profile):
            with _told_of(f"{file}: models.{name} with configs.{config_name}"):
                config = matrix.configs[config_name]
                draft = "draft.gguf" if config.needs_draft_model else None
                compose_argv(f"{name}.gguf", model, config, None, vocabulary, draft_path=draft)


@contextmanager
def _told_of(place: str) -> Iterator[None]:
    try:
        yield
    except (EngineError, ModelError) as error:
        raise MatrixError(f"{place}: {error.cause}", checked=error.checked, fix=error.fix) from error


def _check_warmup(matrix: MatrixSpec, prompt_sets: Mapping[str, PromptSet], file: str) -> None:
    """A measured prompt that was sent before is drafted from its own echo."""
    for name, prompt_set in prompt_sets.items():
        for prompt in prompt_set.prompts:
            texts = [prompt_set.system, *(message.content for message in prompt.messages)]
            if any(matrix.warmup.strip() in text for text in texts):
                raise MatrixError(
                    f"{file}: warmup: is part of prompt {prompt.id!r}",
                    checked=[f"prompt set {name!r}"],
                    fix="warm up with a text that is never measured",
                )


def _without_paths(model: ModelSpec) -> ModelSpec:
    draft = structs.replace(model.draft, path=None) if model.draft is not None else None
    return structs.replace(model, abstains={}, path=None, draft=draft)


def _digest(matrix: MatrixSpec, prompt_sets: Mapping[str, PromptSet], tools: Mapping[str, object]) -> str:
    """What is expected of a config, and comments, decide nothing of what is asked: a run may learn of it.

    Nor does the path of a model: whether its file is the same one is told by its own hash.
    """
    models = {name: _without_paths(model) for name, model in matrix.models.items()}
    digest = hashlib.sha256(msgspec.json.encode(structs.replace(matrix, models=models)))
    digest.update(repr(sorted(prompt_sets.items())).encode())
    digest.update(repr(sorted(tools.items())).encode())
    return digest.hexdigest()

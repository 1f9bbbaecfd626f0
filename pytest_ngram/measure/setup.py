"""What a session can measure: the matrix, its prompts, and the cells of one profile in order."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ngram.engine.vocabulary import EmbeddedFlags, Vocabulary
from pytest_ngram.errors import EngineError, MatrixError, ModelError, OptionError
from pytest_ngram.matrix.plan import PlannedCell, Start, plan
from pytest_ngram.matrix.prompts import PromptSet
from pytest_ngram.matrix.spec import FileSpec, MatrixSpec, ModelSpec, TableSpec
from pytest_ngram.measure import sources
from pytest_ngram.measure.models import handbuilt_spec
from pytest_ngram.measure.servers import compose_argv


@dataclass(frozen=True)
class Setup:
    """A matrix with all that it names read in.

    Args:
        base: the folder of the matrix file, from which its paths start.
        sha256: of everything that decides what is asked: the matrix and the prompt sets.
        cells: of the profile, in the order in which they run.
        tools: tool schemas by prompt id.
    """

    matrix: MatrixSpec
    base: Path
    sha256: str
    profile: str
    prompt_sets: Mapping[str, PromptSet]
    tools: Mapping[str, list[dict[str, Any]]]
    cells: tuple[PlannedCell, ...]

    def servers(self) -> list[str]:
        """Return `model/config` of every server of the run, each once, in the matrix's order."""
        models = {cell.start.model for cell in self.cells}
        return [
            f"{model}/{config}"
            for model in self.matrix.models
            if model in models
            for config in self.matrix.configs_of(model)
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
        wanted: dict[str, FileSpec | ModelSpec] = {}
        for name in dict.fromkeys(cell.start.model for cell in cells):
            if self.matrix.models[name].generate is None:
                wanted[f"models.{name}"] = self.matrix.models[name]
        for config in dict.fromkeys(cell.start.config for cell in cells):
            table = self.matrix.configs[config].table
            if table is not None:
                spec = self.matrix.tables[table]
                wanted[f"tables.{table}"] = spec.corpus or spec.file or FileSpec()
        said = (sources.missing(source, self.base, place) for place, source in wanted.items())
        return [problem for problem in said if problem is not None]

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
    matrix, text = sources.read_matrix(matrix_path)
    base = matrix_path.parent
    _known("profile", [profile], matrix.profiles, matrix_path)
    _known("model", models, matrix.models, matrix_path)
    chosen = models or tuple(matrix.models)
    _check_starts(matrix, chosen, matrix_path.name, vocabulary or EmbeddedFlags())
    prompt_sets = sources.read_prompt_sets(matrix, base)
    _check_warmup(matrix, prompt_sets, matrix_path.name)
    tools: dict[str, list[dict[str, Any]]] = {}
    for name, prompt_set in prompt_sets.items():
        tools |= sources.read_tools(prompt_set, matrix.prompt_sets[name], base)
    ids = {name: [prompt.id for prompt in found.prompts] for name, found in prompt_sets.items()}
    cells = [cell for cell in plan(matrix, profile, ids) if cell.start.model in chosen]
    return Setup(
        matrix=matrix,
        base=base,
        sha256=_digest(text, prompt_sets, tools),
        profile=profile,
        prompt_sets=prompt_sets,
        tools=tools,
        cells=tuple(cells),
    )


def _known(what: str, names: Sequence[str], known: Mapping[str, object], path: Path) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise OptionError(
                f"the matrix has no {what} {name!r}",
                checked=[str(path), f"allowed: {', '.join(known)}"],
                fix=f"did you mean {near[0]!r}?" if near else f"name one of its {what}s",
            )


def _check_starts(matrix: MatrixSpec, models: Sequence[str], file: str, vocabulary: Vocabulary) -> None:
    """Compose every command line and every generated model's parameters now, not hours later."""
    for name in models:
        model = matrix.models[name]
        if model.generate is not None:
            with _told_of(f"{file}: models.{name}.generate"):
                handbuilt_spec(model.generate)
        for config_name in matrix.configs_of(name):
            with _told_of(f"{file}: models.{name} with configs.{config_name}"):
                compose_argv(f"{name}.gguf", model, matrix.configs[config_name], None, vocabulary)


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


def _digest(text: str, prompt_sets: Mapping[str, PromptSet], tools: Mapping[str, object]) -> str:
    digest = hashlib.sha256(text.encode())
    digest.update(repr(sorted(prompt_sets.items())).encode())
    digest.update(repr(sorted(tools.items())).encode())
    return digest.hexdigest()

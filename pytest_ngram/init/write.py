"""From what the user named to files in their repository: composed, checked, and only then written."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from pytest_ngram import __version__
from pytest_ngram.corpus.reader import read_corpus
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import EngineChoice, choose
from pytest_ngram.errors import OptionError
from pytest_ngram.init.advice import Host, advise, model_id
from pytest_ngram.init.matrix_text import (
    TABLE_CONFIG,
    OwnCorpus,
    OwnModel,
    describe,
    matrix_text,
)
from pytest_ngram.init.place import existing, place
from pytest_ngram.init.project import Repository, look
from pytest_ngram.init.quoting import require_text, yaml_scalar
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.names import config_words
from pytest_ngram.matrix.spec import BASELINE
from pytest_ngram.measure.setup import read_setup
from pytest_ngram.models.gguf_file import inspect
from pytest_ngram.options import cache_folder
from pytest_ngram.shipped import GATES, shipped

MATRIX = "bench/matrix.yaml"
WORKFLOW = ".github/workflows/ngram.yml"
_COPIED = ("bench/test_cells.py", *(f"gates/{name}" for name in GATES))
_EMBEDDED = "embedded"
_PATTERN_LETTERS = re.compile(
    r"[*?+!\[\]\\]"
)  # of a workflow's `paths:`, where a backslash takes them as they are


@dataclass(frozen=True)
class Wanted:
    """What the user named.

    Args:
        folder: the repository.
        model: a GGUF file, or None.
        engine: a llama-server binary, a URL, `embedded`, or None for embedded.
        corpus: a JSONL file of chats, or None.
        ci: whether to write the workflow.
        force: replace files that exist.
    """

    folder: Path
    model: Path | None = None
    engine: str | None = None
    corpus: Path | None = None
    ci: bool = True
    force: bool = False


@dataclass(frozen=True)
class Written:
    """What was done: a line for each file, what the user should know, and the commands to type next."""

    files: tuple[str, ...]
    notes: tuple[str, ...]
    commands: tuple[str, ...]


def write(wanted: Wanted) -> Written:
    """Write the files.

    Raises:
        NgramError: model, corpus, engine or repository are not as they must be, or a file exists already;
            nothing was written.
    """
    for named in (wanted.model, wanted.corpus, wanted.engine):
        require_text(str(named or ""))
    repository = look(wanted.folder.absolute())
    engine = _engine(wanted.engine)
    corpus = _corpus(wanted.corpus) if wanted.corpus is not None else None
    template = shipped("matrix.yaml").read_text(encoding="utf-8")
    model = own_model(wanted.model, template, corpus) if wanted.model is not None else None
    texts = {MATRIX: matrix_text(template, repository.folder / "bench", model, corpus)}
    texts |= {name: shipped(f"init/{name}").read_text(encoding="utf-8") for name in _COPIED}
    if wanted.ci:
        texts[WORKFLOW] = workflow_text(repository.submodule)
    if repository.config is None:
        texts["pytest.ini"] = _ini_text(repository, engine)
    _refuse_existing(repository.folder, texts, force=wanted.force)
    _check(texts[MATRIX], engine)
    place(repository.folder, texts)
    return Written(
        tuple(f"wrote {wanted.folder / name}{_what(name, model)}" for name in texts),
        tuple(_notes(repository, wanted, engine, model)),
        tuple(_commands(repository, engine, model)),
    )


def workflow_text(submodule: str | None) -> str:
    """Return the CI workflow for a submodule at a path; llama.cpp's own name where it is not known."""
    text = shipped(f"init/{WORKFLOW}").read_text(encoding="utf-8")
    path = submodule or "llama.cpp"
    pattern = yaml_scalar(_PATTERN_LETTERS.sub(lambda m: f"\\{m[0]}", path))
    text = re.sub(r"(?m)^(      - )llama\.cpp(\s+#)", lambda m: f"{m[1]}{pattern}{m[2]}", text)
    text = re.sub(r"(?m)^(  LLAMA_CPP: )llama\.cpp(\s+#)", lambda m: f"{m[1]}{yaml_scalar(path)}{m[2]}", text)
    return text.replace("pip install pytest-ngram\n", f"pip install pytest-ngram=={__version__}\n")


def _engine(named: str | None) -> EngineChoice:
    try:
        return choose(None if named == _EMBEDDED else named)
    except OSError as error:
        raise OptionError(
            f"the engine cannot be looked at: {error.strerror or error}",
            checked=[str(named)],
            fix="correct its path, or get the right to enter its folder",
        ) from error


def _corpus(path: Path) -> OwnCorpus:
    """Read a corpus; it has to be a file that stays, since the matrix names it.

    A few bad lines in a long export are counted; a file of nothing else is refused.
    """
    with contextlib.suppress(OSError):  # whatever is wrong is told by who reads it
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OptionError(
                "the corpus is no regular file",
                checked=[str(path)],
                fix="write the chats into a file, and name it: each run reads it again",
            )
    report = read_corpus(path, on_bad="count").report
    roles = ("assistant",) if "assistant" in report.per_role else ()
    messages = report.per_role.get("assistant", report.used)
    return OwnCorpus(path, messages, roles, report.n_rejected)


def own_model(path: Path, template: str, corpus: OwnCorpus | None = None) -> OwnModel:
    """Return a model as it is put into the shipped matrix, with the flags and configs that fit it here.

    Args:
        path: of its file.
        template: the shipped matrix.
        corpus: of a table that is put in too.

    Raises:
        ModelError: the file is missing or damaged.
    """
    facts = inspect(path)
    affinity = len(os.sched_getaffinity(0))
    cores = min(psutil.cpu_count(logical=False) or affinity, affinity)
    host = Host(cores, psutil.virtual_memory().available)
    known = decode_matrix(template, Path(MATRIX).name)
    words = config_words([*known.configs, TABLE_CONFIG])
    name = model_id(path.stem, words)
    if name in known.models:
        name = f"own-{name}"
    return OwnModel(name, facts, advise(facts, host, TABLE_CONFIG if corpus is not None else None))


def _ini_text(repository: Repository, engine: EngineChoice) -> str:
    lines = [
        "[pytest]",
        "# what `pytest` alone runs; `pytest bench` measures, for minutes or hours",
        f"testpaths = {repository.tests or 'gates'}",
    ]
    if engine.kind != _EMBEDDED:
        lines.append(f"llama_server = {_named(engine, repository.folder)}")
    return "\n".join(lines) + "\n"


def _named(engine: EngineChoice, folder: Path) -> str:
    """Return the engine as an ini file names it: a binary of the repository by its path from the root."""
    if engine.path is not None and engine.path.is_relative_to(folder):
        return str(engine.path.relative_to(folder))
    return engine.place


def _refuse_existing(folder: Path, texts: dict[str, str], *, force: bool) -> None:
    there = existing(folder, texts)
    if there and not force:
        raise OptionError(
            f"{len(there)} of {len(texts)} files exist already",
            checked=[str(folder / name) for name in there],
            fix=_what_to_do(there),
        )


def _what_to_do(there: list[str]) -> str:
    text = "look at them; --force replaces these files and no others. Nothing was written"
    if MATRIX in there:
        text += (
            f". To add a model, write it into {MATRIX} by hand, under `models:`; what would be written for "
            "it is shown by `pytest-ngram init ../look --no-ci --model FILE`, to be copied from there"
        )
    return text


def _check(text: str, engine: EngineChoice) -> None:
    """Read the matrix as `pytest bench` will, with the flags that the engine takes. Raises `NgramError`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(MATRIX).name
        path.write_text(text, encoding="utf-8")
        matrix = decode_matrix(text, path.name)
        vocabulary = None
        if engine.kind != _EMBEDDED:
            vocabulary = Factory(engine, cache_dir=cache_folder()).vocabulary
        for profile in matrix.profiles:
            read_setup(path, profile, vocabulary=vocabulary)


def _what(name: str, model: OwnModel | None) -> str:
    if name != MATRIX or model is None:
        return ""
    return f"\n    {model.name}: {describe(model.facts)}\n    configs: {', '.join(model.advice.configs)}"


def _notes(repository: Repository, wanted: Wanted, engine: EngineChoice, model: OwnModel | None) -> list[str]:
    notes = []
    config = repository.config
    if config is not None and engine.kind != _EMBEDDED:
        line = config.line("llama_server", _named(engine, repository.folder))
        notes.append(f"to leave out --llama-server, add to {config.section} of {config.file}: {line}")
    if config is not None and not config.testpaths:
        where = config.line("testpaths", repository.tests or "gates")
        notes.append(
            f"`pytest` alone would now measure too; add to {config.section} of {config.file}: {where}"
        )
    if engine.kind == _EMBEDDED and importlib.util.find_spec("xllamacpp") is None:
        notes.append('the embedded engine is not installed: pip install "pytest-ngram[embedded]"')
    if engine.kind == "url":
        notes.append(
            "a server at a URL keeps its own flags: cells that need others are refused with the reason"
        )
    if wanted.ci and repository.submodule is None:
        notes.append(f"no llama.cpp submodule was found: correct its path in {WORKFLOW}, in two places")
    if model is None:
        notes.append("without --model only the hand-built models are measured: they tell nothing of yours")
    return notes


def _commands(repository: Repository, engine: EngineChoice, model: OwnModel | None) -> list[str]:
    said = ""
    if engine.kind != _EMBEDDED and repository.config is not None:
        said = f" --llama-server {shlex.quote(engine.place)}"
    here = repository.folder == Path.cwd()
    first = [] if here else [f"cd {shlex.quote(str(repository.folder))}"]
    if model is None:
        return [*first, f"pytest gates{said}", f'pytest bench{said} -k "none or mtp1" --benchmark-quiet']
    only = f"pytest bench{said} --ngram-models {model.name}"
    return [
        *first,
        f"{only} --collect-only -q --ngram-probe",
        f'{only} -k "{BASELINE}/ or {_first_of(model)}/" --benchmark-quiet',
        f"{only} --ngram-budget 2h --benchmark-autosave --benchmark-quiet",
    ]


def _first_of(model: OwnModel) -> str:
    """The config for a first look: the first that drafts."""
    return next(name for name in model.advice.configs if name != BASELINE)

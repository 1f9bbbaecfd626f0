"""Golden files: read strictly, and written only when that was asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from pytest_ngram.errors import OptionError
from pytest_ngram.files import locked, write_whole
from pytest_ngram.judge.golden import SCHEMA, Fingerprint, Golden, PromptFile, Text
from pytest_ngram.judge.types import Answer
from pytest_ngram.matrix.yaml_text import load

T = TypeVar("T", Golden, PromptFile)
_HEAD = "# Made by `pytest gates --gates-update`; reviewed like code, since it says what is right.\n"
_LOCK_S = 60.0


class Goldens:
    """The goldens of a folder.

    Args:
        folder: usually `gates/golden`.
        lock: a file that writers hold; it is no golden, so it lies elsewhere.
    """

    def __init__(self, folder: Path, lock: Path) -> None:
        self.folder = folder
        self._lock = lock

    def texts(self, model: str) -> list[Golden]:
        """Return the golden texts of a model's name, one of each fingerprint. Raises `OptionError`."""
        found: dict[Fingerprint, tuple[Path, Golden]] = {}
        for path in sorted(self.folder.glob(f"{model}.texts*.yaml")):
            golden = _read(path, Golden)
            if golden.fingerprint in found:
                raise _twice(found[golden.fingerprint][0], path)
            found[golden.fingerprint] = path, golden
        return [golden for _, golden in found.values()]

    def prompts(self, model: str) -> PromptFile | None:
        """Return the stored prompt ids of a model's name, None where there are none. Raises `OptionError`."""
        path = self._prompts_path(model)
        return _read(path, PromptFile) if path.is_file() else None

    def store_text(self, model: str, found: Golden) -> Path:
        """Add texts to the file of their fingerprint, in place of those of the same prompts."""
        path = self.folder / f"{model}.texts{_tag(found.fingerprint)}.yaml"
        with self._writing(path):
            old = _read(path, Golden) if path.is_file() else None
            if old is not None and (old.n_predict, old.made_with) == (found.n_predict, found.made_with):
                found = msgspec.structs.replace(found, texts=dict(sorted((old.texts | found.texts).items())))
            _write(path, found)
        return path

    def store_prompt(self, model: str, found: PromptFile) -> Path:
        """Add prompt ids to the file of the model's name, in place of those of the same prompts."""
        path = self._prompts_path(model)
        with self._writing(path):
            old = _read(path, PromptFile) if path.is_file() else None
            if old is not None and old.model == found.model:
                found = msgspec.structs.replace(
                    found, prompts=dict(sorted((old.prompts | found.prompts).items()))
                )
            _write(path, found)
        return path

    def _prompts_path(self, model: str) -> Path:
        return self.folder / f"{model}.prompts.yaml"

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Be the only one that writes goldens. Raises `OptionError` where nothing can be written."""
        try:
            for folder in (self.folder, self._lock.parent):
                folder.mkdir(parents=True, exist_ok=True)
            with locked(self._lock, _LOCK_S):
                yield
        except OSError as error:
            raise OptionError(
                f"the golden {path.name} cannot be written: {error.strerror or error}",
                checked=[f"folder: {self.folder}", f"lock: {self._lock}"],
                fix="make the folder of goldens writable, or name another one with --gates-golden",
            ) from error


def text_of(answer: Answer, fingerprint: Fingerprint, n_predict: int, made_with: str) -> Golden:
    """Return a golden of one answer."""
    return Golden(
        made_with=made_with,
        fingerprint=fingerprint,
        n_predict=n_predict,
        texts={answer.prompt: Text(text=readable(answer.text), ids=answer.tokens)},
    )


def readable(text: str) -> str:
    """Return a text with `\N{REPLACEMENT CHARACTER}` for what a reader, or YAML, could not take as it is."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def _tag(fingerprint: Fingerprint) -> str:
    """A model with a rule has one file; another one for each fingerprint, by family and a digest."""
    if fingerprint.family is None:
        return ""
    digest = hashlib.sha256(msgspec.json.encode(fingerprint)).hexdigest()[:6]
    return f".{fingerprint.family}.{digest}"


def _twice(one: Path, other: Path) -> OptionError:
    return OptionError(
        f"the goldens {one.name} and {other.name} hold for the same fingerprint",
        checked=[str(one.parent)],
        fix="keep the one that was reviewed: two of them may contradict each other",
    )


def _read(path: Path, kind: type[T]) -> T:
    try:
        found = msgspec.convert(load(path.read_text(encoding="utf-8"), path.name), kind)
    except (msgspec.ValidationError, UnicodeDecodeError, OSError) as error:
        raise OptionError(
            f"the golden {path.name} cannot be read: {error}",
            checked=[str(path)],
            fix="restore it from version control, or remove it and store it again with --gates-update",
        ) from error
    if found.schema != SCHEMA:
        raise OptionError(
            f"the golden {path.name} is of schema {found.schema}",
            checked=[f"this version reads schema {SCHEMA}"],
            fix="store it again with --gates-update, and review the difference",
        )
    return found


def _write(path: Path, content: Golden | PromptFile) -> None:
    text = yaml.safe_dump(
        msgspec.to_builtins(content), allow_unicode=True, sort_keys=False, width=110, default_flow_style=None
    )
    write_whole(path, (_HEAD + text).encode())

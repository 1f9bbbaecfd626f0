"""`matrix.yaml` to a `MatrixSpec` whose every reference exists."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import msgspec

from pytest_ngram.matrix.echo import check_echo, check_name_is_free
from pytest_ngram.matrix.gates import check_gates
from pytest_ngram.matrix.names import check_id, check_no_config_word, config_words
from pytest_ngram.matrix.spec import (
    BASELINE,
    SPEC_TYPES,
    ConfigSpec,
    FileSpec,
    GatesSpec,
    MatrixSpec,
    ModelSpec,
    ProfileSpec,
    Seconds,
    SourceSpec,
    TableSpec,
)
from pytest_ngram.matrix.strict import fail, mapping, struct, unknown
from pytest_ngram.matrix.yaml_text import load

VERSION = 1
S = TypeVar("S", bound=msgspec.Struct)


class _Top(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    models: Any
    configs: Any
    prompt_sets: Any
    profiles: Any
    warmup: Annotated[str, msgspec.Meta(min_length=1)]
    tables: Any = {}
    gates: Any = {}
    seed: int = 1
    hang_after_s: Seconds = 120.0


def decode_matrix(text: str, file: str) -> MatrixSpec:
    """Read a matrix file.

    Args:
        text: its content.
        file: its name, for messages.

    Raises:
        MatrixError: an unknown key, type or reference; names file, key path and the allowed values.
    """
    top = struct(file, "", load(text, file), _Top)
    if top.version != VERSION:
        fail(file, "version", f"version {top.version} is not known", fix=f"write `version: {VERSION}`")
    matrix = MatrixSpec(
        version=top.version,
        seed=top.seed,
        warmup=top.warmup,
        hang_after_s=top.hang_after_s,
        models=_section(file, "models", top.models, ModelSpec),
        configs=_section(file, "configs", top.configs, ConfigSpec),
        tables=_section(file, "tables", top.tables, TableSpec),
        prompt_sets=_section(file, "prompt_sets", top.prompt_sets, FileSpec),
        profiles=_section(file, "profiles", top.profiles, ProfileSpec),
        gates=struct(file, "gates", top.gates, GatesSpec),
    )
    _check_configs(file, matrix)
    _check_models(file, matrix)
    _check_tables(file, matrix)
    _check_profiles(file, matrix)
    check_gates(file, matrix)
    check_name_is_free(file, matrix)
    for name, source in matrix.prompt_sets.items():
        _one_of(file, f"prompt_sets.{name}", source, ("path", "package"))
    return matrix


def _section(file: str, name: str, value: object, kind: type[S]) -> dict[str, S]:
    entries = mapping(file, name, value)
    if not entries and name != "tables":
        fail(file, name, "is empty", fix="name at least one entry")
    for key in entries:
        check_id(file, f"{name}.{key}", key)
    return {
        key: struct(file, f"{name}.{key}", {} if entry is None else entry, kind)
        for key, entry in entries.items()
    }


def _check_configs(file: str, matrix: MatrixSpec) -> None:
    baseline = matrix.configs.get(BASELINE)
    if baseline is None:
        fail(
            file,
            "configs",
            f"has no {BASELINE!r}",
            fix=f"add `{BASELINE}: {{}}`: every change is told against it",
        )
    if baseline != ConfigSpec(flags=baseline.flags, rounds=baseline.rounds):
        fail(file, f"configs.{BASELINE}", "drafts", fix="give the baseline neither types nor a table")
    for name, config in matrix.configs.items():
        path = f"configs.{name}"
        _flags(file, f"{path}.flags", config.flags)
        for i, spec_type in enumerate(config.types):
            if spec_type not in SPEC_TYPES:
                unknown(file, f"{path}.types[{i}]", "speculative type", spec_type, SPEC_TYPES)
        if len(set(config.types)) < len(config.types):
            fail(file, f"{path}.types", "names a type twice", fix="name each type once")
        if name != BASELINE and not config.types:
            fail(
                file,
                path,
                "has no types",
                checked=[f"allowed: {', '.join(SPEC_TYPES)}"],
                fix="name its types",
            )
        _check_config_table(file, path, config, matrix)
        if config.rounds > 1 and config.stateful:
            fail(
                file,
                f"{path}.rounds",
                f"{config.rounds} rounds of a type that keeps state between requests",
                checked=[f"types: {', '.join(config.types)}"],
                fix="repeat with blocks: a second request would be drafted from the first one's echo",
            )


def _check_config_table(file: str, path: str, config: ConfigSpec, matrix: MatrixSpec) -> None:
    if config.table is None:
        return
    if config.table not in matrix.tables:
        unknown(file, f"{path}.table", "table", config.table, matrix.tables)
    if "ngram-cache" not in config.types:
        fail(
            file,
            f"{path}.table",
            "a table without the type that reads it",
            checked=[f"types: {', '.join(config.types) or '(none)'}"],
            fix="add `ngram-cache` to the types, or leave the table out",
        )


def _check_models(file: str, matrix: MatrixSpec) -> None:
    words = config_words(matrix.configs)
    for name, model in matrix.models.items():
        path = f"models.{name}"
        check_no_config_word(file, path, "model id", name, words)
        _check_source(file, path, model)
        if model.draft is not None:
            _check_source(file, f"{path}.draft", model.draft)
        _flags(file, f"{path}.flags", model.flags)
        _references(file, f"{path}.configs", model.configs, matrix.configs, "config")
        _references(file, f"{path}.prompt_sets", model.prompt_sets, matrix.prompt_sets, "prompt set")
        _check_draft_configs(file, f"{path}.configs", model, matrix)
        if BASELINE not in matrix.configs_of(name):
            fail(
                file, f"{path}.configs", f"has no {BASELINE!r}", fix="add it: every change is told against it"
            )
        _check_abstains(file, f"{path}.abstains", name, matrix)


def _check_source(file: str, path: str, source: SourceSpec) -> None:
    """One place to take the file from; of parts each has its own."""
    _one_of(file, path, source, ("path", "package", "parts", "generate"))
    for i, part in enumerate(source.parts):
        _one_of(file, f"{path}.parts[{i}]", part, ("path", "package"))
    if source.sha256 is not None and not source.parts:
        fail(
            file, f"{path}.sha256", "goes with `parts`", fix="leave it out: other files are not put together"
        )


def _check_draft_configs(file: str, path: str, model: ModelSpec, matrix: MatrixSpec) -> None:
    for i, name in enumerate(model.configs or ()):
        config = matrix.configs[name]
        if config.needs_draft_model and model.draft is None:
            fail(
                file,
                f"{path}[{i}]",
                f"{name!r} drafts with a second model, and this model names none",
                checked=[f"types: {', '.join(config.types)}"],
                fix="give the model a `draft:` (path, package, parts or generate), or leave the config out",
            )


def _check_abstains(file: str, path: str, model: str, matrix: MatrixSpec) -> None:
    drafting = [config for config in matrix.configs_of(model) if config != BASELINE]
    for config, told in matrix.models[model].abstains.items():
        here = f"{path}.{config}"
        if config not in drafting:
            unknown(file, here, "drafting config of this model", config, drafting)
        types = matrix.configs[config].types
        if isinstance(told, str) and len(types) > 1:
            fail(
                file,
                here,
                f"does not say which of the types {' and '.join(types)} never drafts",
                checked=["the other types of a stack have to draft"],
                fix=f"name the type: `{config}: {{{types[-1]}: {told.strip() or 'why'}}}`",
            )
        reasons = {"": told} if isinstance(told, str) else {f".{name}": why for name, why in told.items()}
        for name in () if isinstance(told, str) else told:
            if name not in types:
                unknown(file, f"{here}.{name}", "type of this config", name, types)
        for name, why in reasons.items() or [("", "")]:
            if not why.strip():
                fail(file, f"{here}{name}", "is empty", fix="say why it never drafts on this model")


def _check_tables(file: str, matrix: MatrixSpec) -> None:
    for name, table in matrix.tables.items():
        path = f"tables.{name}"
        _one_of(file, path, table, ("corpus", "file"))
        if table.file is not None and table != TableSpec(file=table.file):
            fail(
                file,
                path,
                "says how to build a table that is ready",
                checked=["beside `file`, no other key has an effect"],
                fix="leave the other keys out, or name a `corpus` instead",
            )
        if table.max_mb is None and table.seed != TableSpec().seed:
            fail(file, f"{path}.seed", "draws no sample", fix="add `max_mb`, or leave the seed out")
        for i, source in enumerate(table.corpora):
            place = "corpus" if isinstance(table.corpus, FileSpec) else f"corpus[{i}]"
            _one_of(file, f"{path}.{place}", source, ("path", "package"))
        if table.file is not None:
            _one_of(file, f"{path}.file", table.file, ("path", "package"))


def _check_profiles(file: str, matrix: MatrixSpec) -> None:
    for name, profile in matrix.profiles.items():
        path = f"profiles.{name}"
        if not profile.temperatures:
            fail(file, f"{path}.temperatures", "is empty", fix="write `temperatures: [0]`")
        if len({f"{temperature:g}" for temperature in profile.temperatures}) < len(profile.temperatures):
            fail(
                file,
                f"{path}.temperatures",
                "names one twice",
                checked=["two that differ after the sixth digit have the same test ids"],
                fix="name each temperature once",
            )
        _references(file, f"{path}.models", profile.models, matrix.models, "model")
        _references(file, f"{path}.configs", profile.configs, matrix.configs, "config")
        if profile.configs is not None and BASELINE not in profile.configs:
            fail(
                file, f"{path}.configs", f"has no {BASELINE!r}", fix="add it: every change is told against it"
            )
        check_echo(file, name, matrix)
        for prompt_set in profile.prompts:
            if prompt_set not in matrix.prompt_sets:
                unknown(file, f"{path}.prompts.{prompt_set}", "prompt set", prompt_set, matrix.prompt_sets)


def _references(file: str, path: str, names: Iterable[str] | None, known: Iterable[str], what: str) -> None:
    if names is None:
        return
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name not in known:
            unknown(file, f"{path}[{i}]", what, name, known)
        if name in seen:
            fail(file, f"{path}[{i}]", f"{name!r} is named twice", fix="name it once")
        seen.add(name)
    if not seen:
        fail(file, path, "is empty", fix=f"name a {what}, or leave the key out to take all")


def _one_of(file: str, path: str, entry: msgspec.Struct, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if getattr(entry, key) not in (None, ())]
    if len(given) != 1:
        fail(
            file,
            path,
            f"needs exactly one of {', '.join(keys)}",
            checked=[f"given: {', '.join(given) or 'none of them'}"],
            fix="keep one",
        )


def _flags(file: str, path: str, flags: str) -> None:
    try:
        words = shlex.split(flags)
    except ValueError as error:
        fail(file, path, f"cannot be split into words: {error}", fix="close the quote")
    dice = [word for word in words if word.replace("_", "-").startswith("--spec-synth-")]
    if dice:
        fix = "leave it out; `pytest-ngram curve` uses it where the length of drafts alone counts"
        fail(
            file,
            path,
            f"{dice[0]}: drafts would be accepted by dice, so text and speed mean nothing",
            fix=fix,
        )

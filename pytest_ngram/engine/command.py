"""Composes llama-server's own command line for a measurement. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from pytest_ngram.engine.vocabulary import EmbeddedFlags, Vocabulary
from pytest_ngram.errors import EngineError

# What a measurement needs, whatever the server's defaults: one slot, no prompt cache in RAM, no layers moved
# behind our back, counters and progress to read, a port of the system's choice. A model or a config may
# override those of the first row; the second row belongs to the harness.
DEFAULTS = ("-c", "4096", "-np", "1", "--cache-ram", "0", "--fit", "off")
FIXED = ("--metrics", "--slots", "--host", "127.0.0.1", "--port", "0")

# Each draft type's `statistics` and `acc per pos` need 4 (trace lines need 3). It costs nothing measurable:
# SmolLM2-135M 125-129 t/s at -lv 1, 3 and 4 with and without trace, where 5 writes 100 times as much.
VERBOSITY = 4


def server_argv(
    model_path: str | PurePath,
    *,
    model_flags: Sequence[str] = (),
    spec_types: Sequence[str] = (),
    config_flags: Sequence[str] = (),
    table_path: str | PurePath | None = None,
    draft_model: str | PurePath | None = None,
    verbosity: int = VERBOSITY,
    vocabulary: Vocabulary | None = None,
) -> tuple[str, ...]:
    """Return the command line, without the program.

    Args:
        model_path: the GGUF file.
        model_flags: what this model always needs, such as `-t 4 -c 8192`.
        spec_types: speculative types; empty or `none` for none.
        config_flags: what this configuration adds, such as `--spec-draft-n-max 2`.
        table_path: static lookup table for `-lcs`.
        draft_model: GGUF file of the draft model for `-md`.
        verbosity: `-lv`, where neither model nor config sets it.
        vocabulary: the flags that the engine takes; the embedded engine's where none is given.

    Flags of the model and the config take the place of `DEFAULTS`; a flag counts as the same in any of its
    spellings (`-c` and `--ctx-size`).

    Raises:
        EngineError: outcome `refused`: a flag that the vocabulary refuses, a flag that model and config both
            set to different values, or one that the run itself sets.
    """
    known = vocabulary or EmbeddedFlags()
    types = [name for name in spec_types if name != "none"]
    own = ["-m", str(model_path), *FIXED]
    own += ["--spec-type", ",".join(types)] if types else []
    own += ["-lcs", str(table_path)] if table_path is not None else []
    own += ["-md", str(draft_model)] if draft_model is not None else []
    by_run = known.group(own)
    by_model, by_config = known.group(model_flags), known.group(config_flags)
    for keys, whose in ((by_model, "the model's flags"), (by_config, "the config's flags")):
        _refuse_own(keys, by_run, whose)
    _refuse_conflicts(known, model_flags, config_flags)
    merged = known.group(known.offered([*DEFAULTS, "-lv", str(verbosity)])) | by_run | by_model | by_config
    if "verbose" in merged:
        del merged["verbosity"]
    argv = tuple(word for words in merged.values() for word in words)
    return known.parse(argv).argv


def _refuse_own(given: dict[str, tuple[str, ...]], by_run: dict[str, tuple[str, ...]], whose: str) -> None:
    for key, words in given.items():
        if key in by_run or key == "spec-type":
            raise EngineError(
                f"{words[0]} is set by the run",
                outcome="refused",
                checked=[f"{whose}: {' '.join(words)}", f"the run: {' '.join(by_run.get(key, ()))}"],
                fix="take it out of the flags; the matrix has a key of its own for what may be chosen",
            )


def _refuse_conflicts(known: Vocabulary, model_flags: Sequence[str], config_flags: Sequence[str]) -> None:
    model, config = _values(known, model_flags), _values(known, config_flags)
    for key in model.keys() & config.keys():
        if model[key] != config[key]:
            raise EngineError(
                f"the model and the config disagree about --{key}",
                outcome="refused",
                checked=[
                    f"the model's flags: {' '.join(model_flags)}",
                    f"the config's: {' '.join(config_flags)}",
                ],
                fix="set it in one of the two places",
            )


def _values(known: Vocabulary, argv: Sequence[str]) -> dict[str, object]:
    """Return typed values where they can be read, else the words after the flag."""
    words = {key: words[1:] for key, words in known.group(argv).items()}
    return {**words, **known.parse(argv).values}

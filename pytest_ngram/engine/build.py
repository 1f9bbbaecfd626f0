"""What one build of llama-server has. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import msgspec

from pytest_ngram.engine.flags import BY_KEY, LOAD_MODE_SWITCHES
from pytest_ngram.engine.help_text import HelpFlag
from pytest_ngram.errors import EngineError

_FLAG_NAMES = frozenset(name for flag in BY_KEY.values() for name in (*flag.names, *flag.off_names))

# Names of capabilities, the same for every kind of engine, and the flag that each stands for.
OF_FLAGS = {
    "metrics": "--metrics",
    "slots": "--slots",
    "props": "--props",
    "cache-ram": "--cache-ram",
    "fit": "--fit",
    "ctx-checkpoints": "--ctx-checkpoints",
    "n-cpu-moe": "--n-cpu-moe",
    "override-tensor": "--override-tensor",
    "lookup-cache-static": "--lookup-cache-static",
    "lookup-cache-dynamic": "--lookup-cache-dynamic",
    "spec-synth-len": "--spec-synth-len",
    "spec-synth-rates": "--spec-synth-rates",
}
# Those that only an answer and its log can tell. Absent from a record: not known, such as what needs a draft
# where nothing was drafted.
OF_REQUESTS = (
    "n-decode-total",  # `/metrics` counts decodes of the target
    "draft-counts",  # `/metrics` counts drafted and accepted tokens
    "verify-counts",  # `/metrics` counts verify steps
    "per-position-counts",  # `/metrics` counts accepted tokens by position
    "timings-drafts",  # `timings` holds `draft_n` and `draft_n_accepted`
    "token-ids",  # `/completion` returns the generated ids
    "slot-progress",  # `/slots` says how many tokens are decoded
    "timing-lines",  # the log's `eval time` lines are read
    "acceptance-lines",  # its `draft acceptance` lines
    "per-position-lines",  # its `acc per pos` lines
    "statistics-lines",  # its `statistics <type>` lines
    "trace-lines",  # its `accepted k/n draft tokens` lines (LLAMA_TRACE=1)
)


class Build(msgspec.Struct, frozen=True):
    """One build.

    Args:
        name: what to call it in a message.
        package, version: the Python package that installed it, None where none did.
        build: what it says of itself, such as `b11434-1a2b3c4`.
        spec_types: what `--spec-type` takes, `none` left out; empty where it says nothing.
        flags: its flags; empty where it does not list them, and then none can be checked.
        capabilities: by the names of `OF_FLAGS` and `OF_REQUESTS`; a name that is absent is not known.
    """

    name: str
    package: str | None = None
    version: str | None = None
    build: str | None = None
    spec_types: tuple[str, ...] = ()
    flags: tuple[HelpFlag, ...] = ()
    capabilities: dict[str, bool] = {}

    def flag(self, word: str) -> HelpFlag | None:
        """Return the flag of that spelling (`--ctx_size` counts as `--ctx-size`), None where it has none."""
        name = spelled(word)
        return next((flag for flag in self.flags if name in flag.names), None)

    def near(self, word: str) -> list[str]:
        """Return spellings like `word`, three at most."""
        names = [name for flag in self.flags if not flag.removed for name in flag.names]
        return difflib.get_close_matches(spelled(word), names, n=3, cutoff=0.6)

    def words(self, argv: Sequence[str]) -> Iterator[tuple[str, HelpFlag | None, tuple[str, ...]]]:
        """Yield each flag of a command line: as written, what it is (None: unknown), and its values."""
        rest = list(argv)
        while rest:
            word = rest.pop(0)
            flag = self.flag(word)
            count = flag.n_values if flag is not None else 0
            values, rest = tuple(rest[:count]), rest[count:]
            yield word, flag, values


def spelled(word: str) -> str:
    """Return a flag as llama-server reads it: underscores of a long name are dashes."""
    return word.replace("_", "-") if word.startswith("--") else word


def of_flags(flags: Sequence[HelpFlag]) -> dict[str, bool]:
    """Return the capabilities that flags tell of; empty where there are no flags to judge by."""
    names = {name for flag in flags if not flag.removed for name in flag.names}
    return {key: name in names for key, name in OF_FLAGS.items()} if names else {}


def spec_types_of(flags: Sequence[HelpFlag]) -> tuple[str, ...]:
    """Return the types that `--spec-type` takes, `none` left out."""
    flag = next((flag for flag in flags if "--spec-type" in flag.names), None)
    return tuple(name for name in flag.choices if name != "none") if flag is not None else ()


def not_offered(build: Build, spec_types: Sequence[str], argv: Sequence[str]) -> EngineError | None:
    """Return why a build cannot run a config: a type or a flag that it does not have; None where it can.

    What the build does not say (no flags, no types) is not held against it.
    """
    for name in spec_types:
        if build.spec_types and name != "none" and name not in build.spec_types:
            return EngineError(
                f"the speculative type {name} is not offered by this build",
                outcome="refused",
                checked=[build.name, f"it has: {', '.join(build.spec_types)}"],
                fix="use a build that has it, or leave the config out",
            )
    if not build.flags:
        return None
    for word, flag, _ in build.words(argv):
        if flag is None or flag.removed:
            return _flag_not_offered(build, word, flag.text if flag is not None else None, argv)
    return None


def _flag_not_offered(build: Build, word: str, said: str | None, argv: Sequence[str]) -> EngineError:
    is_flag = spelled(word) in (*_FLAG_NAMES, *LOAD_MODE_SWITCHES) or said is not None
    near = [] if is_flag else build.near(word)
    cause = f"{word} is not offered by this build" if is_flag else f"{word} is not a flag of this build"
    checked = [build.name, f"its --help lists {len(build.flags)} flags"]
    checked += [f"it says: {said}"] if said is not None else []
    fix = f"did you mean {', '.join(near)}?" if near else "leave it out, or use a build that has it"
    both = {"--no-mmap", "--mlock"} <= {spelled(each) for each in argv}
    mode = "mlock" if both else LOAD_MODE_SWITCHES.get(spelled(word))
    if spelled(word) in LOAD_MODE_SWITCHES and build.flag("--load-mode") is not None:
        fix = f"this build says it otherwise: write --load-mode {mode}" + (" for both" if both else "")
    return EngineError(cause, outcome="refused", checked=checked, fix=fix)

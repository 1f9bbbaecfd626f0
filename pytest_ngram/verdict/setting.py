"""What two runs were measured on and with, and where that differs. Pure.

Some of it is of a run as a whole (versions, matrix, host, build), some of a model (its file, its flags, the
ids of its prompts, n_predict), some of a config (its flags, its table, its draft model).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from pytest_ngram.record import Engine, Host, Model, Prompt, Record, Round, RunData

Flags = tuple[tuple[str, ...], ...]
# What the run itself sets, or what names a file whose hash is compared instead.
_OWN = frozenset(
    (
        *("-m", "--model", "--host", "--port", "--metrics", "--slots", "--log-file", "--alias", "-a"),
        *("-lv", "--verbosity", "--log-verbosity", "-lcs", "--lookup-cache-static"),
        *("-md", "--model-draft", "--spec-draft-model"),
    )
)
_OF_SPECULATION = ("--spec-", "--draft", "--lookup-")
_OF_DRAFT_MODEL = "-draft"
_OF_SPECULATION_SHORT = frozenset(
    ("-lcd", "-ngld", "-ctkd", "-ctvd", "-otd", "-ncmoed", "-cmoed", "-td", "-tbd", "-devd", "-cd")
)
_SHORT = 12  # digits of a hash that are shown
UNTOLD = "not told"
Scope = Literal["run", "host", "engine", "model", "config"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not the same on both sides.

    Args:
        scope: what it is of.
        of: the same as a name: `run`, `host`, `engine`, a model's id, or `model/config`.
        what: the thing.
        old, new: its values, as text.
        forbids: whether nothing may be compared across it: all of the run's, the host's, or the model's.
    """

    scope: Scope
    of: str
    what: str
    old: str
    new: str
    forbids: bool = False


def differences(old: RunData, new: RunData) -> list[Difference]:
    """Return where two runs differ, what forbids a comparison first."""
    found = [
        *_of_run(old, new),
        *_of_host(old.records, new.records),
        *_of_engine(old.records, new.records),
        *(each for model in shared_models(old, new) for each in _of_model(model, old, new)),
    ]
    return sorted(found, key=lambda each: not each.forbids)


def shared_models(old: RunData, new: RunData) -> list[str]:
    """Return the ids of the models that both runs have, in the order of the new one."""
    before = {record.cell.model for record in old.records}
    return [m for m in dict.fromkeys(record.cell.model for record in new.records) if m in before]


def _told(values: Iterable[object]) -> str:
    """Values as text, each once, in order of their names."""
    texts = sorted({UNTOLD if value is None else str(value) for value in values})
    return ", ".join(texts) or UNTOLD


def _where(
    scope: Scope, of: str, what: str, old: Iterable[object], new: Iterable[object], *, forbids: bool = False
) -> list[Difference]:
    before, after = _told(old), _told(new)
    return (
        []
        if before == after
        else [Difference(scope=scope, of=of, what=what, old=before, new=after, forbids=forbids)]
    )


def _of_run(old: RunData, new: RunData) -> list[Difference]:
    named = (
        ("pytest-ngram", old.version, new.version),
        ("profile", old.profile, new.profile),
        ("matrix", old.matrix_sha256[:_SHORT], new.matrix_sha256[:_SHORT]),
        ("seed", old.seed, new.seed),
        ("prompt sets", _sets(old.records), _sets(new.records)),
    )
    return [each for what, left, right in named for each in _where("run", "run", what, [left], [right])]


def _sets(records: Iterable[Record]) -> str:
    by_set: dict[str, set[str]] = defaultdict(set)
    for record in records:
        by_set[record.cell.prompt_set].add(record.cell.prompt)
    return ", ".join(f"{name} ({len(prompts)})" for name, prompts in sorted(by_set.items()))


def _of_host(old: Sequence[Record], new: Sequence[Record]) -> list[Difference]:
    """Processor, cores and instruction sets make a host another one; how it was set up is told only."""
    left, right = ([each.host for each in side if each.host is not None] for side in (old, new))

    def of(what: str, get: Callable[[Host], object], *, forbids: bool = False) -> list[Difference]:
        return _where("host", "host", what, map(get, left), map(get, right), forbids=forbids)

    return [
        *of("processor", lambda host: host.cpu, forbids=True),
        *of("cores", lambda host: host.cores, forbids=True),
        *of(
            "instruction sets",
            lambda host: None if host.isa is None else " ".join(sorted(host.isa)),
            forbids=True,
        ),
        *of("governor", lambda host: host.governor),
        *of("on battery", lambda host: host.on_battery),
    ]


def _of_engine(old: Sequence[Record], new: Sequence[Record]) -> list[Difference]:
    left, right = ([each.engine for each in side if each.engine is not None] for side in (old, new))

    def of(what: str, get: Callable[[Engine], object]) -> list[Difference]:
        return _where("engine", "engine", what, map(get, left), map(get, right))

    return [
        *of("kind", lambda engine: engine.kind),
        *of("package", lambda engine: engine.package),
        *of("version", lambda engine: engine.version),
        *of("build", lambda engine: engine.build),
        *of("label", lambda engine: engine.label),
        *of("binary", lambda engine: (engine.binary_sha256 or UNTOLD)[:_SHORT]),
        *of("speculative types", lambda engine: " ".join(sorted(engine.spec_types))),
        *_capabilities(left, right),
    ]


def _capabilities(old: Iterable[Engine], new: Iterable[Engine]) -> list[Difference]:
    sides: list[dict[str, set[bool]]] = []
    for side in (old, new):
        seen: dict[str, set[bool]] = defaultdict(set)
        for engine in side:
            for name, has in engine.capabilities.items():
                seen[name].add(has)
        sides.append(seen)

    def told(seen: Mapping[str, set[bool]], name: str) -> str:
        return "/".join("yes" if has else "no" for has in sorted(seen.get(name, ()))) or UNTOLD

    names = sorted({*sides[0], *sides[1]})
    return [
        Difference(scope="engine", of="engine", what=name, old=told(sides[0], name), new=told(sides[1], name))
        for name in names
        if told(sides[0], name) != told(sides[1], name)
    ]


def _of_model(model: str, old: RunData, new: RunData) -> list[Difference]:
    left, right = (_by_config(model, side.records) for side in (old, new))
    shared = [config for config in left if config in right]
    all_left, all_right = ([r for own in side.values() for r in own] for side in (left, right))

    def of(what: str, get: Callable[[Model], object], *, forbids: bool = False) -> list[Difference]:
        files = [[r.model for r in side if r.model is not None] for side in (all_left, all_right)]
        return _where("model", model, what, map(get, files[0]), map(get, files[1]), forbids=forbids)

    before, after = ({config: side[config] for config in shared} for side in (left, right))
    return [
        *of("model file", lambda each: f"{each.name} {each.sha256[:_SHORT]}", forbids=True),
        *_model_flags(model, before, after),
        *_n_predict(model, all_left, all_right),
        *_prompt_ids(model, old.prompts, new.prompts, all_left, all_right),
        *(each for config in shared for each in _of_config(model, config, left[config], right[config])),
    ]


def _by_config(model: str, records: Iterable[Record]) -> dict[str, list[Record]]:
    configs: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.cell.model == model:
            configs[record.cell.config].append(record)
    return configs


def flags_of(argv: Sequence[str]) -> Flags:
    """Return the flags of a command line with their values, sorted, without those that a run sets itself."""
    found: list[tuple[str, ...]] = []
    for word in argv:
        is_flag = word.startswith("-") and not word.lstrip("-").replace(".", "", 1).isdigit()
        if is_flag or not found:
            found.append((word,))
        else:
            found[-1] = (*found[-1], word)
    return tuple(sorted(_numbered(flag for flag in found if flag[0] not in _OWN)))


def _numbered(flags: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    """Of a flag that stands again the order counts: llama.cpp takes the last, or goes through all."""
    seen: Counter[str] = Counter()
    for flag in flags:
        seen[flag[0]] += 1
        yield flag if seen[flag[0]] == 1 else (*flag, f"(no. {seen[flag[0]]})")


def is_of_speculation(flag: str) -> bool:
    """Whether a flag says how to draft: it is a config's, whoever else has it."""
    return flag.startswith(_OF_SPECULATION) or flag.endswith(_OF_DRAFT_MODEL) or flag in _OF_SPECULATION_SHORT


def _split(by_config: Mapping[str, Sequence[Record]]) -> tuple[set[tuple[str, ...]], dict[str, Flags]]:
    """The flags of the model, which all of its configs have, and those that each config has beside them."""
    flags = {
        config: flags_of(record.engine.argv)
        for config, own in by_config.items()
        for record in own
        if record.engine is not None
    }
    if not flags:
        return set(), {}
    common = set.intersection(*map(set, flags.values()))
    common = {flag for flag in common if not is_of_speculation(flag[0])}
    return common, {
        config: tuple(flag for flag in own if flag not in common) for config, own in flags.items()
    }


def _model_flags(
    model: str, old: Mapping[str, Sequence[Record]], new: Mapping[str, Sequence[Record]]
) -> list[Difference]:
    (left, of_old), (right, of_new) = _split(old), _split(new)
    found = []
    if left != right:
        found.append(
            Difference(
                scope="model",
                of=model,
                what="flags of the model",
                old=_words(left - right),
                new=_words(right - left),
                forbids=True,
            )
        )
    for config in of_old.keys() & of_new.keys():
        before, after = set(of_old[config]), set(of_new[config])
        if before != after:
            found.append(
                Difference(
                    scope="config",
                    of=f"{model}/{config}",
                    what="flags",
                    old=_words(before - after),
                    new=_words(after - before),
                )
            )
    return found


def _words(flags: Iterable[tuple[str, ...]]) -> str:
    return " ".join(" ".join(flag) for flag in sorted(flags)) or "—"


def _of_config(model: str, config: str, old: Sequence[Record], new: Sequence[Record]) -> list[Difference]:
    of = f"{model}/{config}"
    tables = [[r.table.sha256[:_SHORT] for r in side if r.table] for side in (old, new)]
    drafts = [[r.draft_model.sha256[:_SHORT] for r in side if r.draft_model] for side in (old, new)]
    return [*_where("config", of, "table", *tables), *_where("config", of, "draft model", *drafts)]


def _n_predict(model: str, old: Iterable[Record], new: Iterable[Record]) -> list[Difference]:
    """What was asked for; older records tell it by the answers that it cut off, no other is longer.

    Where no answer was cut off, n_predict has no part in the numbers.
    """
    old, new = list(old), list(new)
    (cut_old, most_old), (cut_new, most_new) = (_lengths(side) for side in (old, new))
    asked_old, asked_new = _asked(old), _asked(new)
    if asked_old and asked_new and (cut_old or cut_new):
        return _where("model", model, "n_predict", asked_old, asked_new, forbids=True)
    differ = bool(cut_old and cut_new and cut_old != cut_new)
    differ = differ or bool(cut_old and most_new > max(cut_old)) or bool(cut_new and most_old > max(cut_new))
    if not differ:
        return []

    def told(cut: set[int], most: int) -> str:
        return ", ".join(map(str, sorted(cut))) if cut else f"{most} or more"

    return [
        Difference(
            scope="model",
            of=model,
            what="n_predict",
            old=told(cut_old, most_old),
            new=told(cut_new, most_new),
            forbids=True,
        )
    ]


def _asked(records: Iterable[Record]) -> set[int]:
    """How many tokens were asked for; nothing where a request does not tell."""
    asked = {each.n_predict for record in records for each in record.rounds}
    return set() if None in asked else {n for n in asked if n is not None}


def _lengths(records: Iterable[Record]) -> tuple[set[int], int]:
    rounds: list[Round] = [r for record in records for r in record.rounds if r.predicted_n is not None]
    cut = {r.predicted_n for r in rounds if r.stop == "limit" and r.predicted_n is not None}
    return cut, max((r.predicted_n or 0 for r in rounds), default=0)


def _prompt_ids(
    model: str,
    old: Iterable[Prompt],
    new: Iterable[Prompt],
    old_records: Iterable[Record],
    new_records: Iterable[Record],
) -> list[Difference]:
    ids = [{each.prompt: each.tokens for each in side if each.model == model} for side in (old, new)]
    asked = {r.cell.prompt for r in old_records if r.rounds} & {
        r.cell.prompt for r in new_records if r.rounds
    }
    other = [name for name in sorted(asked) if ids[0].get(name) != ids[1].get(name)]
    untold = [name for name in sorted(asked) if name not in ids[0] or name not in ids[1]]
    if not other and not untold:
        return []
    shown = ", ".join((other or untold)[:3]) + (" …" if len(other or untold) > 3 else "")
    count = f"{len(other or untold)} of {len(asked)}"
    new_text = f"other ids for {count}: {shown}" if other and not untold else f"{UNTOLD} for {count}: {shown}"
    return [Difference(scope="model", of=model, what="prompt ids", old="—", new=new_text, forbids=True)]

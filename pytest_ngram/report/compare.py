"""Two runs as lines for a terminal: what differs, a table for each model, where the change comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_ngram.report.catalogue import Catalogue, catalogue
from pytest_ngram.report.columns import columns
from pytest_ngram.report.terminal import UNKNOWN, counted
from pytest_ngram.verdict.attribution import PARTS, Attribution
from pytest_ngram.verdict.bounds import Check, Checked
from pytest_ngram.verdict.comparison import Comparison, ConfigChange, ModelChange
from pytest_ngram.verdict.figures import Figure
from pytest_ngram.verdict.setting import Difference
from pytest_ngram.verdict.summary import BASELINE

_SPEEDS = (
    "config",
    "tg before",
    "now",
    "change",
    "95 %",
    f"÷ {BASELINE}",
    "pp",
    "RSS",
    "acceptance",
    "coverage",
)
_COSTS = ("config", "before", "now", "change", *PARTS)
_MARKS = {"pass": "ok", "fail": "FAIL", "cannot tell": "CANNOT TELL"}


def compare_lines(compared: Comparison, checked: Checked | None = None, language: str = "en") -> list[str]:
    """Return the lines: differences first, then each model, then what bounds say.

    Args:
        compared: two runs.
        checked: by the bounds of `--fail-on`; None where there are none.
        language: of the catalogue.
    """
    texts = catalogue(language)
    lines = [f"{compared.new} against {compared.old}", *_differences(compared.differences)]
    for model in compared.models:
        lines += ["", *_model(model, texts)]
    for name, models in ((compared.old, compared.only_old), (compared.new, compared.only_new)):
        lines += [f"only in {name}: {each}" for each in models]
    if not compared.models:
        lines += ["", "nothing to compare: no model is in both at the same temperature"]
    return [*lines, *(check_lines(checked, texts) if checked is not None else [])]


def check_lines(checked: Checked, texts: Catalogue | None = None) -> list[str]:
    """Return a line for each check that did not pass, the passed ones counted, and the outcome."""
    known = texts or catalogue()
    passed = sum(each.outcome == "pass" for each in checked.checks)
    lines = ["", f"bounds: {checked.outcome}, {passed} of {counted(len(checked.checks), 'check')} passed"]
    order = ("fail", "cannot tell")
    for outcome in order:
        lines += [f"  {_check(each, known)}" for each in checked.checks if each.outcome == outcome]
    return lines


def _check(each: Check, texts: Catalogue) -> str:
    temperature = "" if each.temperature is None else f" at temperature {each.temperature:g}"
    place = "/".join(filter(None, (each.model, each.config)))
    return f"{_MARKS[each.outcome]}  {place}{temperature}: {texts.say(each.why)}".replace("  : ", "  ")


def _differences(found: Sequence[Difference]) -> list[str]:
    if not found:
        return ["  measured with the same versions, build, flags, matrix and prompts on the same host"]
    rows = [("what differs", "", "before", "now")]
    rows += [(each.of, each.what, each.old, each.new) for each in found]
    return columns(rows, left=4)


def _model(model: ModelChange, texts: Catalogue) -> list[str]:
    title = f"{model.model}, temperature {model.temperature:g}"
    if model.not_comparable:
        whys = "; ".join(texts.say(why) for why in model.not_comparable)
        return [f"{title}: not comparable: {whys}"]
    good = [config for config in model.configs if not config.not_comparable]
    lines = [title]
    if good:
        lines += columns([_SPEEDS, *map(_speeds, good)])
        lines += ["", "  where the change of a token's cost comes from, ms per token"]
        lines += columns([_COSTS, *map(_costs, good)])
    notes = [note for config in model.configs for note in _notes(config, texts)]
    return [*lines, *(f"  {note}" for note in notes)]


def _speeds(config: ConfigChange) -> tuple[str, ...]:
    figures = config.figures
    tg = figures.get("tg")
    return (
        config.config,
        _number(tg.old if tg else None),
        _number(tg.new if tg else None),
        _change(tg),
        _interval(tg),
        _change(figures.get("gain")),
        _change(figures.get("pp")),
        _change(figures.get("rss")),
        _both(figures.get("acceptance"), "{:.3f}"),
        _both(figures.get("coverage"), "{:.0%}"),
    )


def _costs(config: ConfigChange) -> tuple[str, ...]:
    found = config.attribution
    if found is None:
        return (config.config, *[UNKNOWN] * (len(_COSTS) - 1))
    parts = [_part(found, part) for part in PARTS]
    return (
        config.config,
        f"{found.old_ms:.3f}",
        f"{found.new_ms:.3f}",
        f"{found.change_ms:+.3f}",
        *parts,
    )


def _part(found: Attribution, part: str) -> str:
    text = "0" if found.parts[part] == 0 else f"{found.parts[part]:+.3f}"
    return f"~{text}" if found.unclear and part in ("plain", "verify") else text


def _notes(config: ConfigChange, texts: Catalogue) -> Iterable[str]:
    """What is not in the tables: why there is no number, and which cells are in none."""
    if config.not_comparable:
        whys = "; ".join(texts.say(why) for why in config.not_comparable)
        yield f"{config.config}: not comparable: {whys}"
    else:
        seen = f"{counted(config.cells, 'cell')} on both sides"
        seen += f", {counted(config.blocks, 'block')} × {counted(config.prompts, 'prompt')}"
        if config.same_answers is not None:
            seen += f", {config.same_answers} with the same answer"
        yield f"{config.config}: {seen}{_left_out(config)}"
    if config.not_comparable and (out := _left_out(config)):
        yield f"{config.config}: {out.removeprefix(', ')}"
    if config.attribution is not None and config.attribution.unclear:
        yield f"{config.config}: ~ plain and verify steps could not be told apart well; their sum is right"
    for why, names in _lacking(config, texts).items():
        yield f"{config.config}: no {', '.join(names)}: {why}"


def _lacking(config: ConfigChange, texts: Catalogue) -> dict[str, list[str]]:
    """What is not known of a config, by why."""
    found: dict[str, list[str]] = {}
    for name, figure in config.figures.items():
        if figure.why is not None:
            found.setdefault(texts.say(figure.why), []).append(name)
    for why in config.no_attribution:
        found.setdefault(texts.say(why), []).append("attribution")
    return found


def _left_out(config: ConfigChange) -> str:
    told = [
        (config.disturbed, "disturbed on a side and in no speed"),
        (config.only_old, "only before"),
        (config.only_new, "only now"),
        (config.another_state, "left out: the server remembered other requests"),
    ]
    said = [f"{count} {what}" for count, what in told if count]
    said += [f"{_outcomes(config.ended_old)} before"] if config.ended_old else []
    said += [f"{_outcomes(config.ended_new)} now"] if config.ended_new else []
    return "".join(f", {each}" for each in said)


def _outcomes(ended: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in ended.items())


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _change(figure: Figure | None) -> str:
    return UNKNOWN if figure is None or figure.change is None else f"{figure.change:+.1%}"


def _interval(figure: Figure | None) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return UNKNOWN
    floor = "" if figure.floor is None else f", noise {figure.floor:.1%}"
    return f"{figure.low:+.1%}…{figure.high:+.1%}{floor}"


def _both(figure: Figure | None, form: str) -> str:
    if figure is None:
        return UNKNOWN
    old, new = (UNKNOWN if value is None else form.format(value) for value in (figure.old, figure.new))
    return old if old == new else f"{old} → {new}"

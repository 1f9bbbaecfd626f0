"""Two runs as sections: what differs, a table for each model, where the change comes from, bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.numbers import UNKNOWN, number
from pytest_ngram.report.page.types import Head, Section, Table, Td
from pytest_ngram.verdict.attribution import Attribution
from pytest_ngram.verdict.bounds import Check, Checked
from pytest_ngram.verdict.codes import Reason
from pytest_ngram.verdict.comparison import Comparison, ConfigChange, ModelChange
from pytest_ngram.verdict.figures import Figure
from pytest_ngram.verdict.summary import BASELINE

_DIFFERENCES = ("of", "what", "before", "now")
_SPEEDS = ("config", "tg-before", "now", "change", "interval", "gain", "pp", "rss", "acceptance", "coverage")
_TOTALS = ("config", "before", "now", "change")
_COSTS = (*_TOTALS, "acceptance", "coverage", "draft", "plain", "verify", "replay", "rest")


def compared_sections(
    compared: Comparison, texts: Catalogue, checked: Checked | None = None
) -> tuple[Section, ...]:
    """Return what there is to say of two runs, differences first.

    Args:
        compared: two runs.
        texts: of a language.
        checked: by bounds; None where there are none.
    """
    parts = [_differences(compared, texts)]
    parts += [_model(f"compared-{n}", model, texts) for n, model in enumerate(compared.models, 1)]
    return (*parts, _checks(checked, texts)) if checked is not None else tuple(parts)


def _differences(compared: Comparison, texts: Catalogue) -> Section:
    rows = [(each.of, each.what, each.old, each.new) for each in compared.differences]
    lines = [] if rows else [texts.tell("two-same")]
    for name, models in ((compared.old, compared.only_old), (compared.new, compared.only_new)):
        lines += [texts.tell("two-only", name=name, model=each) for each in models]
    lines += [] if compared.models else [texts.tell("two-nothing")]
    return Section(
        id="compared",
        title=texts.tell("two-title", new=compared.new, old=compared.old),
        lines=tuple(lines),
        tables=(_table(texts.tell("two-differs"), _DIFFERENCES, rows, texts, left=4),) if rows else (),
    )


def _table(
    caption: str, keys: Sequence[str], rows: Iterable[Sequence[str]], texts: Catalogue, *, left: int = 1
) -> Table:
    heads = [texts.tell(f"two-col-{key}", baseline=BASELINE) for key in keys]
    return Table(
        caption=caption,
        head=tuple(Head(text, number=i >= left) for i, text in enumerate(heads)),
        rows=tuple(tuple(Td(text, number=i >= left) for i, text in enumerate(row)) for row in rows),
    )


def _model(place: str, model: ModelChange, texts: Catalogue) -> Section:
    title = texts.tell("model-title", model=model.model, temperature=model.temperature)
    if model.not_comparable:
        line = texts.tell("two-not-comparable", why=_why(model.not_comparable, texts))
        return Section(id=place, title=title, lines=(line,))
    good = [config for config in model.configs if not config.not_comparable]
    speeds = [_speeds(config, texts) for config in good]
    tables = (
        _table(texts.tell("two-speeds"), _SPEEDS, speeds, texts),
        _table(texts.tell("two-costs"), _COSTS, map(_costs, good), texts),
    )
    notes = tuple(note for config in model.configs for note in _notes(config, texts))
    return Section(id=place, title=title, lines=notes, tables=tables if good else ())


def _why(reasons: Iterable[Reason], texts: Catalogue) -> str:
    return "; ".join(texts.say(why) for why in reasons)


def _speeds(config: ConfigChange, texts: Catalogue) -> tuple[str, ...]:
    figures = config.figures
    tg = figures.get("tg")
    return (
        config.config,
        number(tg.old if tg else None),
        number(tg.new if tg else None),
        _change(tg),
        _interval(tg, texts),
        _change(figures.get("gain")),
        _change(figures.get("pp")),
        _change(figures.get("rss")),
        _both(figures.get("acceptance"), ".3f"),
        _both(figures.get("coverage"), ".0%"),
    )


def _costs(config: ConfigChange) -> tuple[str, ...]:
    found = config.attribution
    if found is None:
        return (config.config, *[UNKNOWN] * (len(_COSTS) - 1))
    told = (f"{found.old_ms:.3f}", f"{found.new_ms:.3f}", f"{found.change_ms:+.3f}")
    return (config.config, *told, *(_part(found, part) for part in _COSTS[len(_TOTALS) :]))


def _part(found: Attribution, part: str) -> str:
    text = "0" if found.parts[part] == 0 else f"{found.parts[part]:+.3f}"
    return f"~{text}" if found.unclear and part in ("plain", "verify") else text


def _change(figure: Figure | None) -> str:
    return number(figure.change if figure is not None else None, "+.1%")


def _interval(figure: Figure | None, texts: Catalogue) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return UNKNOWN
    told = f"{figure.low:+.1%}…{figure.high:+.1%}"
    return told if figure.floor is None else texts.tell("two-noise", range=told, floor=figure.floor)


def _both(figure: Figure | None, form: str) -> str:
    if figure is None:
        return UNKNOWN
    old, new = number(figure.old, form), number(figure.new, form)
    return old if old == new else f"{old} → {new}"


def _notes(config: ConfigChange, texts: Catalogue) -> Iterable[str]:
    """What is not in the tables: which cells are in them and which are not, and why there is no number."""
    if config.not_comparable:
        why = _why(config.not_comparable, texts)
        yield texts.tell("two-config-not-comparable", config=config.config, why=why)
    cells = texts.tell(
        "two-cells",
        config=config.config,
        cells=config.cells,
        blocks=config.blocks,
        prompts=config.prompts,
    )
    yield "; ".join([cells, *_left_out(config, texts)])
    for why, names in _lacking(config, texts).items():
        yield texts.tell("two-lacking", config=config.config, figures=", ".join(names), why=why)
    if config.attribution is not None and config.attribution.unclear:
        yield texts.tell("two-unclear", config=config.config)


def _left_out(config: ConfigChange, texts: Catalogue) -> list[str]:
    said = []
    if config.same_answers is not None and not config.not_comparable:
        said.append(texts.tell("two-same-answers", n=config.same_answers))
    for key, n in (
        ("disturbed", config.disturbed),
        ("only-before", config.only_old),
        ("only-now", config.only_new),
        ("another-state", config.another_state),
    ):
        said += [texts.tell(f"two-cells-{key}", n=n)] if n else []
    for key, ended in (("before", config.ended_old), ("now", config.ended_new)):
        said += [texts.tell(f"two-ended-{key}", outcomes=_outcomes(ended))] if ended else []
    return said


def _outcomes(ended: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in ended.items())


def _lacking(config: ConfigChange, texts: Catalogue) -> dict[str, list[str]]:
    """What is not known of a config, by why."""
    found: dict[str, list[str]] = {}
    for name, figure in config.figures.items():
        if figure.why is not None:
            found.setdefault(texts.say(figure.why), []).append(name)
    for why in config.no_attribution:
        found.setdefault(texts.say(why), []).append("attribution")
    return found


def _checks(checked: Checked, texts: Catalogue) -> Section:
    """The outcome, and each check that did not pass; the passed ones are counted."""
    passed = sum(each.outcome == "pass" for each in checked.checks)
    outcome = texts.tell(f"two-outcome-{_key(checked.outcome)}")
    title = texts.tell("two-bounds", outcome=outcome, passed=passed, checks=len(checked.checks))
    failed = [each for each in checked.checks if each.outcome == "fail"]
    open_ = [each for each in checked.checks if each.outcome == "cannot tell"]
    return Section(id="bounds", title=title, lines=tuple(_check(each, texts) for each in (*failed, *open_)))


def _check(each: Check, texts: Catalogue) -> str:
    mark, why = texts.tell(f"two-mark-{_key(each.outcome)}"), texts.say(each.why)
    if each.model is None:
        return texts.tell("two-check-all", mark=mark, why=why)
    place = each.model if each.config is None else f"{each.model}/{each.config}"
    return texts.tell("two-check", mark=mark, place=place, temperature=each.temperature, why=why)


def _key(outcome: str) -> str:
    return {"pass": "pass", "fail": "fail", "cannot tell": "open"}[outcome]

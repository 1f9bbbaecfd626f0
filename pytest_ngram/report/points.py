"""Lines about a run of single, unrepeated numbers: figures with labels, conclusions with bounds."""

from __future__ import annotations

from pytest_ngram.report.catalogue import Catalogue, catalogue
from pytest_ngram.verdict.points import Comparison, Conclusion, PointRow, PointVerdict


def point_lines(verdict: PointVerdict, language: str = "en") -> list[str]:
    """Return a line for each figure, then the conclusions with the noise that they bear.

    Args:
        verdict: of the run.
        language: of the catalogue.
    """
    texts = catalogue(language)
    lines: list[str] = []
    for group in dict.fromkeys(row.group for row in verdict.rows):
        rows = [row for row in verdict.rows if row.group == group]
        lines += [f"{group}:", *(f"  {_row(row, texts)}" for row in rows)]
    for conclusion in verdict.conclusions:
        lines += [f"{texts.say(conclusion.what)}; {_bears(conclusion, texts)}"]
        lines += [f"  {_comparison(each, texts)}" for each in conclusion.comparisons]
    if verdict.own_floor is not None:
        lines.append(texts.line["own-floor"].format(floor=verdict.own_floor))
    return lines


def _row(row: PointRow, texts: Catalogue) -> str:
    change = "" if row.change is None else f" ({row.change:+.1%})"
    return f"{row.id} {row.config}: {row.tg:.2f} t/s{change}: {'; '.join(map(texts.say, row.reasons))}"


def _bears(conclusion: Conclusion, texts: Catalogue) -> str:
    if conclusion.survives is None:
        return texts.line["survives-any"]
    return texts.line["survives"].format(floor=conclusion.survives)


def _comparison(each: Comparison, texts: Catalogue) -> str:
    said = f"{each.config} against {each.against}: {each.change:+.1%}, {texts.claim[each.claim]}"
    if each.survives is None:
        return f"{said}, {texts.line['needs'].format(floor=each.needs)}"
    return f"{said}, {texts.line['survives'].format(floor=each.survives)}"

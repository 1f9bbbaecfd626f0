"""A report as Markdown for a pull request: the answer, the table, the floor, why, and what failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_ngram.report.catalogue import Catalogue, catalogue
from pytest_ngram.report.page import ModelPart, Page, Section, Shown, Table, build

_MOST_NOTICES = 20  # a comment of a pull request has an end; the HTML report has them all
# What Markdown or HTML would take for more than text.
_ACTIVE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{sign: f"\\{sign}" for sign in "\\`*_[]|~"}}
)
_CALL = re.compile(r"([@#])(?=\w)")  # a name or an issue of somebody else


def markdown(shown: Shown, language: str = "en") -> str:
    """Return the report. The same run makes the same text."""
    texts = catalogue(language)
    return render(build(shown, texts, language), texts)


def render(view: Page, texts: Catalogue) -> str:
    """Return a page as Markdown. All that is foreign is escaped."""
    blocks: list[str] = []
    if view.overview is not None:
        blocks += [f"## {_plain(view.title)}", _table(view.overview)]
    if not view.models:
        blocks.append(f"## {_plain(texts.tell('nothing'))}")
    others = [block for section in view.sections for block in _section(section)]
    models = [_model(model, texts) for model in view.models]
    # the answer of one model is the answer; of several there is the overview
    parts = [*models, others] if len(models) == 1 else [others, *models]
    blocks += [block for part in parts for block in part]
    blocks += _folded(texts.tell("facts"), [_table(view.facts)])
    blocks.append(f"<sub>{_plain(view.lead)}</sub>")
    return "\n\n".join(block for block in blocks if block) + "\n"


def _section(section: Section) -> list[str]:
    return [f"## {_plain(section.title)}", *map(_plain, section.lines), *map(_table, section.tables)]


def _model(model: ModelPart, texts: Catalogue) -> list[str]:
    blocks = [f"## {_plain(model.answer)}", _plain(model.title), _table(model.table), _plain(model.floor)]
    why = [
        f"- **{_plain(each.config)}**: {_plain(each.said)}; {_plain('; '.join([*each.reasons, *each.parts]))}"
        for each in model.judged
    ]
    blocks.append("\n".join(why))
    if model.corpus:
        blocks += [f"**{_plain(texts.tell('corpus'))}**", _list(model.corpus)]
    if model.notes:
        blocks += [f"**{_plain(texts.tell('notes'))}**", _list(model.notes)]
    if model.notices or model.disturbed:
        blocks += _folded(texts.tell("notices"), _notices(model, texts))
    if model.strata is not None:
        blocks += _folded(texts.tell("strata"), [_table(model.strata)])
    for figure in model.figures:
        if figure.table is not None and len(figure.table.rows) <= _MOST_NOTICES:
            blocks += _folded(figure.title, [_table(figure.table), _plain(figure.note)])
    return blocks


def _notices(model: ModelPart, texts: Catalogue) -> list[str]:
    blocks = []
    every = [*model.notices, *model.disturbed]
    for notice in every[:_MOST_NOTICES]:
        said = texts.tell("notice-line", name=notice.name, status=notice.status)
        blocks.append(f"**{_plain(said)}**")
        blocks.append(_fenced(notice.reason.splitlines()))
        if notice.log_tail:
            blocks += [_plain(texts.tell("log-tail", lines=len(notice.log_tail))), _fenced(notice.log_tail)]
    left = len(every) - _MOST_NOTICES
    return [*blocks, _plain(texts.tell("more-cells", cells=left))] if left > 0 else blocks


def _table(table: Table) -> str:
    rows = [
        [_plain(head.text) for head in table.head],
        ["--:" if head.number else ":--" for head in table.head],
        *([_plain(cell.text) for cell in row] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _folded(title: str, blocks: Iterable[str]) -> list[str]:
    return [f"<details><summary>{_plain(title)}</summary>", *blocks, "</details>"]


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _fenced(lines: Sequence[str]) -> str:
    """Lines as they are, in a fence that is longer than any run of its signs in them."""
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _plain(text: str) -> str:
    """Text that Markdown and HTML take for nothing but text, in one line."""
    return "<br>".join(_CALL.sub(r"\1<!-- -->", line.translate(_ACTIVE)) for line in text.splitlines())

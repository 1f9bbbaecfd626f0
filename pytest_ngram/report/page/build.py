"""The whole page out of a run and its verdict."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ngram.record import Engine, Model, Record, Run
from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.numbers import UNKNOWN, number
from pytest_ngram.report.page.model import model_part
from pytest_ngram.report.page.types import Head, ModelPart, Page, Shown, Table, Td
from pytest_ngram.verdict.summary import BASELINE
from pytest_ngram.verdict.types import ModelVerdict

_VARIES = {"--host", "--port", "--log-file", "-m"}


def build(shown: Shown, texts: Catalogue, language: str = "en") -> Page:
    """Return the page: the same run makes the same page."""
    styles = _styles(shown)
    models = tuple(
        model_part(model, f"m{n}", shown, styles, texts) for n, model in enumerate(shown.verdict.models, 1)
    )
    return Page(
        language=language,
        title=texts.tell("title"),
        lead=_lead(shown, texts),
        overview=_overview(shown.verdict.models, models, texts) if len(models) > 1 else None,
        models=models,
        sections=tuple(shown.sections),
        facts=_facts(shown, texts),
    )


def _styles(shown: Shown) -> dict[str, int]:
    """A number for each config; the baseline's is 0."""
    seen = {record.cell.config for record in shown.records}
    first = [config for config in shown.config_order if config in seen]
    names = dict.fromkeys([BASELINE, *first, *sorted(seen)])
    return {config: n for n, config in enumerate(names)}


def _lead(shown: Shown, texts: Catalogue) -> str:
    engines = ", ".join(_distinct(_engine(e) for r in shown.records if (e := r.engine) is not None))
    hosts = ", ".join(_distinct(_host(record) for record in shown.records))
    return texts.tell(
        "lead",
        cells=len(shown.records),
        engine=engines or UNKNOWN,
        host=hosts or UNKNOWN,
        when=shown.when or UNKNOWN,
    )


def _overview(verdicts: Iterable[ModelVerdict], parts: Iterable[ModelPart], texts: Catalogue) -> Table:
    """One line for each model and temperature, which leads to its part."""
    rows = []
    for verdict, part in zip(verdicts, parts, strict=True):
        href = f"#{part.id}"
        rows.append(
            (
                Td(part.title, href, number=False),
                Td(part.answer, number=False),
                Td(number(verdict.floor.bound if verdict.floor else None, ".1%"), href),
            )
        )
    head = (
        Head(texts.tell("col-model"), number=False),
        Head(texts.tell("col-answer"), number=False),
        Head(texts.tell("col-floor"), texts.tell("col-floor-hint")),
    )
    return Table(texts.tell("overview-caption"), head, tuple(rows))


def _facts(shown: Shown, texts: Catalogue) -> Table:
    records, run = shown.records, shown.run
    told = {
        "engine": _distinct(_engine(record.engine) for record in records if record.engine is not None),
        "model": _distinct(_model(record.model, texts) for record in records if record.model is not None),
        "host": _distinct(map(_host, records)),
        "flags": _distinct(_flags(record) for record in records),
        "table": _distinct(
            texts.tell(
                "fact-table-line",
                model=record.cell.model,
                config=record.cell.config,
                keys=record.table.keys,
                pairs=record.table.pairs,
                sha256=record.table.sha256[:12],
            )
            for record in records
            if record.table is not None
        ),
    }
    if run is not None:
        told |= {
            "version": [run.version],
            "profile": [run.profile],
            "seed": [str(run.seed)],
            "matrix": [run.matrix_sha256[:12]],
        }
    if isinstance(run, Run):
        cells = texts.tell("fact-cells-of", measured=run.measured_cells, planned=run.planned_cells)
        resumed = [texts.tell("fact-resumed", cells=run.resumed_cells)] if run.resumed_from else []
        told |= {
            "cells": [", ".join([cells, *resumed])],
            "wall": [texts.tell("fact-seconds", seconds=run.wall_s)],
        }
    rows = [
        (Td(texts.tell(f"fact-{name}"), number=False), Td("\n".join(values), number=False))
        for name, values in told.items()
        if values
    ]
    rows += [(Td(name, number=False), Td(value, number=False)) for name, value in shown.facts.items()]
    head = (Head(texts.tell("col-fact"), number=False), Head(texts.tell("col-value"), number=False))
    return Table(texts.tell("facts-caption"), head, tuple(rows))


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(filter(None, values)))


def _engine(engine: Engine) -> str:
    name = engine.package or engine.kind
    version = " ".join(
        filter(None, (engine.version, f"({engine.build})" if engine.build else "", engine.label))
    )
    return f"{name} {version}".strip()


def _model(model: Model, texts: Catalogue) -> str:
    return texts.tell(
        "fact-model-line",
        name=model.name,
        arch=model.arch,
        mb=model.size_bytes / 1e6,
        sha256=model.sha256[:12],
    )


def _host(record: Record) -> str:
    host = record.host
    if host is None or host.cpu is None:
        return ""
    return host.cpu + (f" × {host.cores}" if host.cores else "")


def _flags(record: Record) -> str:
    """The command line of a config, without what differs from start to start anyway."""
    if record.engine is None:
        return ""
    words = list(record.engine.argv)
    kept = [
        word
        for i, word in enumerate(words)
        if word not in _VARIES and (i == 0 or words[i - 1] not in _VARIES)
    ]
    return f"{record.cell.model}/{record.cell.config}: {' '.join(kept)}"

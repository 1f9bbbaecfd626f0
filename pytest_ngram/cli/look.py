"""Commands that look at one thing: `gates-diff`, `model-info`."""

from __future__ import annotations

import argparse

from pytest_ngram.cli.arguments import Commands, path


def add(commands: Commands) -> None:
    """Add the commands."""
    gates = commands.add_parser("gates-diff", help="tell what changed between two runs of the gates")
    gates.add_argument("old", type=path, help="written by pytest gates --gates-report on the one build")
    gates.add_argument("new", type=path, help="the same of the other")
    gates.set_defaults(run=_gates_diff)
    model = commands.add_parser("model-info", help="describe a GGUF: layers, experts, MTP block, vocabulary")
    model.add_argument("model", type=path, help="a GGUF file")
    model.set_defaults(run=_model_info)


def _gates_diff(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.evidence.report import diff_lines, read_report

    return diff_lines(read_report(arguments.old), read_report(arguments.new))


def _model_info(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.models.gguf_file import inspect

    facts = inspect(arguments.model)
    experts = "dense" if facts.n_expert is None else f"{facts.n_expert} experts"
    mtp = f"{facts.nextn} MTP layers" if facts.nextn else "no MTP block"
    return [
        f"{facts.name} ({facts.arch}): {facts.size_bytes} bytes, {facts.n_layer} layers, {experts}, {mtp}",
        f"vocabulary {facts.vocab_sha256[:16]}…, {facts.n_vocab} tokens; context {facts.n_ctx_train}",
    ]

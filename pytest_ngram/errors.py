"""Errors that give the cause, what was checked, and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class NgramError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        cause: one sentence, what is wrong.
        checked: what was looked at before giving up, one item each (a path, a number, a flag).
        fix: what the reader can do about it, in the imperative.
    """

    def __init__(self, cause: str, *, checked: Sequence[str] = (), fix: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.checked = tuple(checked)
        self.fix = fix

    def __str__(self) -> str:
        lines = [self.cause]
        lines += [f"  checked: {item}" for item in self.checked]
        lines.append(f"  to do: {self.fix}")
        return "\n".join(lines)


class MatrixError(NgramError):
    """`matrix.yaml` or a prompt set does not say what it may say."""


class ModelError(NgramError):
    """A model file is missing, damaged, or cannot do what a config asks of it."""


class CorpusError(NgramError):
    """A corpus is missing, empty, or has lines that cannot be read."""


class TableError(NgramError):
    """A static lookup table is missing, damaged, or belongs to another vocabulary."""


class RecordError(NgramError):
    """A saved record or journal cannot be read as the schema that it claims."""


class OptionError(NgramError):
    """An option of pytest or of the command line cannot be followed."""


class EngineError(NgramError):
    """An engine did not start, died, hung, or refused.

    Args:
        outcome: the outcome of the cells that wanted this engine: `crash`, `hang`, `oom` or `refused`.
        log_tail: the last lines of the engine's log, oldest first; empty where there is no log.
    """

    def __init__(
        self,
        cause: str,
        *,
        outcome: str,
        checked: Sequence[str] = (),
        fix: str,
        log_tail: Sequence[str] = (),
    ) -> None:
        super().__init__(cause, checked=checked, fix=fix)
        self.outcome = outcome
        self.log_tail = tuple(log_tail)

    def __str__(self) -> str:
        text = super().__str__()
        if self.log_tail:
            text += "\n  last log lines:\n" + "\n".join(f"    {line}" for line in self.log_tail)
        return text

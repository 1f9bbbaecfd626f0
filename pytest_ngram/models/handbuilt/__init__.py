"""The hand-built qwen35moe model with a working MTP block: an instrument of known truth.

Nothing in it is trained. Its weights are laid out so that its greedy output follows a rule that Python
computes, and so that its MTP block drafts that output with a dialled share of errors. Read `words`,
`vocabulary`, `chain` and `rule` for what it says; `layout`, `recurrent`, `experts` and `trunk` for how.
"""

from pytest_ngram.models.handbuilt.cache import generate, rule
from pytest_ngram.models.handbuilt.rule import Rule
from pytest_ngram.models.handbuilt.spec import HandBuiltSpec, generator_id

__all__ = ["HandBuiltSpec", "Rule", "generate", "generator_id", "rule"]

"""What a server turned out to lack, said in terms of what a record then cannot tell. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# What is counted by a metric, where else it can be read, and what is unknown without any of them.
_COUNTS = (
    (
        "n-decode-total",
        "n_decode_total in /metrics",
        (),
        "n_decode is null, and steps are not checked against it",
    ),
    (
        "draft-counts",
        "counts of drafted tokens in /metrics",
        ("statistics-lines",),
        "a request without a draft leaves drafted and accepted null",
    ),
    (
        "verify-counts",
        "counts of verify steps in /metrics",
        ("statistics-lines", "trace-lines"),
        "verify_steps and coverage are null",
    ),
    (
        "per-position-counts",
        "counts of accepted tokens by position in /metrics",
        ("trace-lines",),
        "accepted_per_pos is null",
    ),
)
_NEEDS_A_LOG = (
    ("statistics-lines", "statistics lines in the log (from -lv 4 on)", "by_type is null"),
    ("trace-lines", "trace lines in the log (LLAMA_TRACE=1)", "replays are null where a draft was rejected"),
)


def not_offered(capabilities: Mapping[str, bool], *, speculative: bool) -> list[str]:
    """Return what this build was seen to lack that nothing else makes up for, and what is null for it.

    Args:
        capabilities: what was seen so far, by the names of `engine.build.OF_REQUESTS`. A name that is absent
            may still be seen, and is not held against the build.
        speculative: whether the config drafts; the baseline's drafts are known to be none.
    """
    if capabilities.get("metrics") is False:
        return ["/metrics: n_decode is null, and counts of drafts come from the answer and the log alone"]
    reads_a_log = capabilities.get("timing-lines", False)
    wanted = _COUNTS if speculative else _COUNTS[:1]
    found = []
    for name, what, instead, unknown in wanted:
        made_up = [capabilities.get(other, reads_a_log) for other in instead]
        if capabilities.get(name) is False and not any(made_up):
            found.append(f"{what}: {unknown}")
    if speculative and reads_a_log:
        found += [
            f"{what}: {unknown}" for name, what, unknown in _NEEDS_A_LOG if capabilities.get(name) is False
        ]
    return found

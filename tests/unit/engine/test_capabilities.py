"""What a build has: read from its own words, and held against what a config wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.engine import capabilities, prometheus
from pytest_ngram.engine.build import OF_FLAGS, OF_REQUESTS, Build, of_flags, spec_types_of
from pytest_ngram.engine.client import CompletionResult, Timings
from pytest_ngram.engine.help_text import HelpFlag, Version, parse_help, parse_version
from pytest_ngram.engine.vocabulary import AnyFlags, BinaryFlags, key_of
from pytest_ngram.errors import EngineError

DATA = Path(__file__).with_name("data")
HELP = parse_help((DATA / "b10434.help.txt").read_text())
BUILD = Build(name="b10434", spec_types=spec_types_of(HELP), flags=HELP, capabilities=of_flags(HELP))
METRICS = prometheus.parse((DATA / "b10434.metrics.txt").read_text())
LOG = (DATA / "b10434.request.txt").read_text().splitlines()


def flag(name: str) -> HelpFlag:
    found = BUILD.flag(name)
    assert found is not None
    return found


def answer(drafted: int | None) -> CompletionResult:
    timings = Timings(3, 1.0, 2, 1.0, draft_n=drafted, draft_n_accepted=drafted)
    return CompletionResult("ab", (1, 2), "limit", timings, 3)


@pytest.mark.parametrize(
    ("name", "names", "n_values"),
    [
        ("-c", ("-c", "--ctx-size"), 1),
        ("--perf", ("--perf", "--no-perf"), 0),
        ("--spec-type", ("--spec-type",), 1),
        ("-ot", ("-ot", "--override-tensor"), 1),
        ("--override-tensor-draft", ("--spec-draft-override-tensor", "-otd", "--override-tensor-draft"), 1),
        ("--control-vector-layer-range", ("--control-vector-layer-range",), 2),
        ("--draft-p-min", ("--spec-draft-p-min", "--draft-p-min"), 1),
        ("--ctx_size", ("-c", "--ctx-size"), 1),
    ],
)
def test_help_is_read(name: str, names: tuple[str, ...], n_values: int) -> None:
    """Each entry gives its spellings and how many values it takes, wherever its text stands."""
    assert (flag(name).names, flag(name).n_values) == (names, n_values)


@pytest.mark.parametrize(
    ("build", "missing"),
    [
        (BUILD, ""),
        (Build(name="a script that lists nothing", build="b10434"), ""),
        (Build(name="another program"), "--model, --ctx-size, --port"),
        (
            Build(name="llama-cli", build="b10434", flags=tuple(f for f in HELP if "--port" not in f.names)),
            "--port",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Build) else "",
)
def test_a_program_must_answer_as_llama_server(build: Build, missing: str) -> None:
    """By its flags, or by its version where it lists none; else it is refused with what was asked."""
    program = Path("/opt/bin/program")
    if not missing:
        capabilities.require_llama_server(build, program)
        return
    with pytest.raises(EngineError, match="is not a llama-server") as caught:
        capabilities.require_llama_server(build, program)
    assert caught.value.outcome == "refused"
    assert f"{program} --help: it does not list {missing}" in caught.value.checked
    assert "exec llama-server" in caught.value.fix


def test_help_text_and_choices() -> None:
    """The text of an entry is joined to one line, allowed words are read from the hint."""
    assert flag("-fa").choices == ("on", "off", "auto")
    assert flag("--rope-scaling").choices == ("none", "linear", "yarn")
    assert flag("--draft-p-min").text.startswith("minimum speculative decoding probability")
    assert flag("--draft-n").removed
    assert not flag("-c").removed


def test_types_are_those_of_the_flag() -> None:
    """The types are what `--spec-type` lists, `none` left out; none where the flag is missing."""
    assert {"draft-mtp", "ngram-cache", "ngram-map-k4v"} < set(BUILD.spec_types)
    assert "none" not in BUILD.spec_types
    assert spec_types_of(()) == ()


def test_capabilities_of_flags() -> None:
    """Every name has an answer where flags are known, and none where they are not."""
    assert set(BUILD.capabilities) == set(OF_FLAGS)
    assert BUILD.capabilities["lookup-cache-static"]
    assert BUILD.capabilities["n-cpu-moe"]
    assert not BUILD.capabilities["spec-synth-len"]
    assert of_flags(()) == {}


@pytest.mark.parametrize(
    ("text", "build"),
    [
        (
            "version: 0.1.0-dev (build 1, commit 7e4c0a9)\nbuilt with GNU 11.4.0 for Linux x86_64",
            "b1-7e4c0a9",
        ),
        ("version: 0.6.0 (build 0, commit unknown)\nbuilt with GNU 12.2.0 for Linux x86_64", None),
        ("version: 0.6.0 (build 11434, commit unknown)", "b11434"),
        ("version: 6123 (abc1234)\nbuilt with cc for x86_64-linux-gnu", "b6123-abc1234"),
        ("", None),
    ],
)
def test_version(text: str, build: str | None) -> None:
    """`--version` names the build, in the newer and the older form; number 0 is no name."""
    assert parse_version(text).build == build
    assert parse_version("built with GNU 12 for Linux x86_64") == Version(None, "GNU 12", "Linux x86_64")


def test_draft_shows_what_the_build_reports() -> None:
    """After a request that drafted, every capability of requests is known."""
    seen = capabilities.observed(answer(2), METRICS, slots=True, lines=LOG)
    assert {name for name in OF_REQUESTS if seen.get(name)} == set(OF_REQUESTS)


def test_without_a_draft_the_rest_is_not_known() -> None:
    """Without a draft, what only a draft can show is absent, not false."""
    metrics = {name: 0.0 for name in METRICS if "per_pos" not in name}
    seen = capabilities.observed(answer(None), metrics, slots=True, lines=LOG[:1])
    assert seen["draft-counts"]
    assert not {"per-position-counts", "timings-drafts", "trace-lines"} & set(seen)
    assert "timing-lines" not in capabilities.observed(answer(None), None, slots=False, lines=None)


def test_statistics_are_seen_without_a_draft() -> None:
    """They are printed for every request of a config with types, also where no type ever drafts."""
    line = next(line for line in LOG if "statistics" in line)
    assert capabilities.observed(answer(None), None, slots=True, lines=[line])["statistics-lines"]
    assert "statistics-lines" not in capabilities.observed(answer(None), None, slots=True, lines=LOG[:1])


def test_older_builds_lack_counters() -> None:
    """A build whose metrics count no drafts says so, and one without metrics says that."""
    old = {"llamacpp:prompt_tokens_total": 3.0}
    seen = capabilities.observed(answer(2), old, slots=True, lines=[])
    assert not seen["n-decode-total"]
    assert not seen["per-position-counts"]
    assert not seen["trace-lines"]
    assert not capabilities.observed(answer(2), None, slots=False, lines=[])["metrics"]


def test_type_that_the_build_lacks() -> None:
    """A type that it does not list is not offered, and the error lists those it has."""
    error = capabilities.not_offered(BUILD, ["ngram-suffix"], [])
    assert error is not None
    assert "ngram-suffix is not offered by this build" in error.cause
    assert "draft-mtp" in error.checked[1]
    assert capabilities.not_offered(BUILD, ["none", "draft-mtp"], ["-c", "512"]) is None


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--spec-synth-len", "2"], "--spec-synth-len is not offered"),
        (["--ubatch-sise", "2"], "--ubatch-sise is not a flag"),
        (["--draft-max", "2"], "--draft-max is not offered"),
    ],
)
def test_flag_that_the_build_lacks(argv: list[str], said: str) -> None:
    """A flag of other builds is not offered; a misspelt one is not a flag, with what is near."""
    error = capabilities.not_offered(BUILD, [], ["-c", "-1", *argv])
    assert error is not None
    assert said in error.cause
    assert ("--ubatch-size" in error.fix) == ("sise" in said)


def test_nothing_known_is_nothing_refused() -> None:
    """A build that lists neither flags nor types is not held to them."""
    assert capabilities.not_offered(Build(name="x"), ["anything"], ["--anything"]) is None


def test_any_flag_of_the_build_is_taken() -> None:
    """Flags that only the binary knows are grouped by their long name, known ones by the usual key."""
    argv = ["-ngl", "99", "--n-cpu-moe", "999", "-fa", "on", "-ctk", "q8_0", "-ot", "a=CPU", "-ot", "b=CPU"]
    grouped = BinaryFlags(BUILD).group(argv)
    assert grouped["n-gpu-layers"] == ("-ngl", "99")
    assert grouped["n-cpu-moe"] == ("--n-cpu-moe", "999")
    assert grouped["override-tensor"] == ("-ot", "a=CPU", "-ot", "b=CPU")
    parsed = BinaryFlags(BUILD).parse(argv)
    assert parsed.get("cache-type-k", "f16") == "q8_0"
    assert parsed.argv == tuple(argv)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["-c"], "lacks its value"),
        (["-c", "1", "--ctx-size", "2"], "given twice"),
        (["--seed", "1"], "no place"),
        (["--control-vector-layer-range", "1"], "lacks its value"),
        (["512"], "is not a flag"),
        (["--spec-type", "ngram-foo"], "not offered"),
    ],
)
def test_command_lines_that_are_refused(argv: list[str], said: str) -> None:
    """What would fail or be overridden in silence is refused before anything starts."""
    with pytest.raises(EngineError, match=said):
        BinaryFlags(BUILD).group(argv)


def test_defaults_that_the_build_lacks_are_left_out() -> None:
    """Our own defaults are given only where the build lists them."""
    old = Build(name="old", flags=tuple(f for f in HELP if "--fit" not in f.names))
    assert BinaryFlags(old).offered(["-c", "4096", "--fit", "off", "-n", "-1"]) == ("-c", "4096", "-n", "-1")
    assert BinaryFlags(Build(name="x")).offered(["--fit", "off"]) == ("--fit", "off")


def test_flags_of_a_server_that_someone_started() -> None:
    """For a URL any flag is read: a word after it is its value unless it looks like a flag."""
    grouped = AnyFlags().group(["-ngl", "99", "--no-such", "-1", "--jinja", "-ts", "3,1"])
    assert grouped["no-such"] == ("--no-such", "-1")
    assert grouped["jinja"] == ("--jinja",)
    assert grouped["ts"] == ("-ts", "3,1")


def test_keys_are_shared_with_the_embedded_engine() -> None:
    """One flag has one key in every engine, so a model and a config can be compared."""
    assert key_of(flag("-ub")) == "ubatch-size"
    assert key_of(flag("--metrics")) == "metrics"
    assert key_of(flag("-ncmoe")) == "n-cpu-moe"

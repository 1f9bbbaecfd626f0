"""A running server is compared with what a start wants: every difference is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_ngram.engine.build import Build
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.compare import check_model, check_start
from pytest_ngram.engine.help_text import HelpFlag
from pytest_ngram.engine.looker import Seen
from pytest_ngram.engine.url import UrlEngine
from pytest_ngram.engine.vocabulary import AnyFlags, BinaryFlags, EmbeddedFlags
from pytest_ngram.errors import EngineError

MTP = ("--spec-draft-n-max", "2")
N_MATCH = ("--spec-ngram-mod-n-match", "6")
DEFAULTS = {types: ("--spec-type", types) for types in ("ngram-simple,draft-mtp", "ngram-cache", "ngram-mod")}

SEEN = Seen(
    model_path="/models/some.gguf",
    n_ctx=4096,
    total_slots=1,
    spec_types=(),
    metrics=True,
    slots=True,
    build="b11434-abc",
    n_vocab=1000,
    tensor_bytes=5000,
    n_generated=0,
)


def seen(**changes: Any) -> Seen:
    return msgspec.structs.replace(SEEN, **changes)


def wanted(*flags: str, spec: str = "") -> tuple[str, ...]:
    return server_argv("/here/some.gguf", config_flags=flags, spec_types=spec.split(",") if spec else [])


def test_plain_config_on_a_plain_server() -> None:
    """`none` on a server without speculation is fine; flags of speed are returned as not compared."""
    unseen = check_start(wanted("-t", "4"), SEEN, n_vocab=1000, tensor_bytes=5000)
    assert set(unseen) == {"-t 4", "--cache-ram 0", "--fit off"}


def test_same_types_in_another_order() -> None:
    """The order of types has no effect in llama.cpp, so it is no difference."""
    argv = wanted(spec="draft-mtp,ngram-simple")
    there = seen(spec_types=("ngram-simple", "draft-mtp"))
    check_start(argv, there, told=DEFAULTS["ngram-simple,draft-mtp"])


@pytest.mark.parametrize(
    ("argv", "there", "said"),
    [
        (
            (*wanted(spec="draft-mtp"), *N_MATCH),
            SEEN,
            "draft-mtp is wanted, the server runs without speculation",
        ),
        (wanted(), seen(spec_types=("draft-mtp",)), "no speculation is wanted, the server runs draft-mtp"),
        (wanted(), seen(spec_types=None), "does not tell which types"),
        (
            (*wanted(spec="ngram-mod"), *N_MATCH),
            seen(spec_types=("ngram-mod",), n_generated=40),
            "ngram-mod remembers earlier requests of 40 tokens: start the server anew for each block",
        ),
        (
            (*wanted(spec="ngram-mod"), *N_MATCH),
            seen(spec_types=("ngram-mod",), n_generated=None),
            "ngram-mod remembers earlier requests: start the server anew",
        ),
        (wanted(), seen(model_path="C/other.gguf"), "some.gguf is wanted, other.gguf is loaded"),
        (wanted(), seen(n_ctx=2048), "-c 4096 is wanted, a slot has 2048"),
        (wanted(), seen(total_slots=4), "-np 1 is wanted, the server has 4 slots"),
        (wanted(), seen(metrics=False), "start the server with --metrics"),
        (wanted(), seen(slots=False), "start the server with --slots"),
        (wanted(), seen(n_vocab=7), "vocabulary (tokens): 1000 are wanted, 7 are loaded"),
        (wanted(), seen(tensor_bytes=7), "weights (bytes): 5000 are wanted, 7 are loaded"),
    ],
)
def test_differences_are_refused(argv: tuple[str, ...], there: Seen, said: str) -> None:
    """A server that is not what the config needs is refused with the reason."""
    with pytest.raises(EngineError, match="not the one that this config needs") as caught:
        check_start(argv, there, told=N_MATCH, n_vocab=1000, tensor_bytes=5000)
    assert caught.value.outcome == "refused"
    assert [said in item for item in caught.value.checked] == [True]


@pytest.mark.parametrize("types", ["ngram-mod", "ngram-cache", "draft-mtp", "draft-mtp,ngram-simple"])
@pytest.mark.parametrize("told", [(), ("-t", "1")])
@pytest.mark.parametrize("flags", [(), MTP])
def test_drafting_of_which_nothing_is_told_is_refused(
    types: str, told: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    """A config on llama.cpp's defaults is no exception: no answer tells what a server drafts by."""
    argv = wanted("-t", "1", *flags, spec=types)
    with pytest.raises(EngineError, match="no answer of the server tells") as caught:
        check_start(argv, seen(spec_types=tuple(types.split(","))), told=told)
    (said,) = caught.value.checked
    assert f"--spec-type {types}" in said
    assert "llama.cpp's defaults" in said
    assert not flags or " ".join(flags) in said


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ("ngram-cache", ("-lcs", "some.table")),
        ("ngram-mod", ("--spec-ngram-mod-n-match", "2")),
        ("draft-mtp", ("--spec-draft-n-max", "5")),
        ("draft-mtp", ("--spec-draft-threads", "5")),
        ("draft-mtp", ("--draft-max", "5")),
        ("draft-simple", ("-devd", "none")),
    ],
)
def test_defaults_of_drafting_are_wanted_and_others_told(types: str, told: tuple[str, ...]) -> None:
    """Once the types are told, what is not told is at its default, and what is told is not."""
    there = seen(spec_types=(types,))
    check_start(wanted(spec=types), there, told=("--spec-type", types))
    for said in (told, ("--spec-type", types, *told)):
        with pytest.raises(EngineError) as caught:
            check_start(wanted(spec=types), there, told=said)
        assert caught.value.checked == (f"{' '.join(told)} is said to be set, and is not wanted",)


def test_a_wanted_flag_that_is_not_among_the_told_ones_is_a_difference() -> None:
    """The flags told are the whole list: n_max 2 is not the default that they leave it at."""
    with pytest.raises(EngineError) as caught:
        check_start(
            wanted(*MTP, spec="draft-mtp"), seen(spec_types=("draft-mtp",)), told=("--spec-type", "draft-mtp")
        )
    assert caught.value.checked == ("--spec-draft-n-max 2 is wanted, and is not among the flags told",)


def test_told_types_that_the_server_does_not_run_are_a_difference() -> None:
    """Flags that were told of another start of the server say nothing about this one."""
    with pytest.raises(EngineError) as caught:
        check_start(
            wanted(spec="draft-mtp"), seen(spec_types=("draft-mtp",)), told=("--spec-type", "ngram-mod")
        )
    assert caught.value.checked == ("--spec-type ngram-mod is said to be set, the server runs draft-mtp",)


CHANGES_TEXT = [
    ("-ctk", "q4_0"), ("-fa", "on"), ("--chat-template", "chatml"), ("--rope-freq-base", "1000"),
    ("--top-k", "3"), ("--lora", "some.gguf"), ("--swa-full",), ("--no-jinja",),
]  # fmt: skip


@pytest.mark.parametrize("flags", CHANGES_TEXT)
def test_what_changes_the_text_has_to_be_told(flags: tuple[str, ...]) -> None:
    """A flag that changes what is generated is refused as unknown; it is no matter of a warning."""
    argv = (*wanted(), *flags)
    with pytest.raises(EngineError) as caught:
        check_start(argv, SEEN)
    assert caught.value.checked == (f"{' '.join(flags)} is wanted, and no answer of the server tells it",)
    check_start(argv, SEEN, told=flags)


@pytest.mark.parametrize("flags", [*CHANGES_TEXT, ("-t", "4"), ("-ngl", "99"), ("--no-mmap",), ("-ub", "64")])
@pytest.mark.parametrize("types", ["", "draft-mtp"])
def test_what_is_told_and_changes_text_or_speed_has_to_be_wanted(flags: tuple[str, ...], types: str) -> None:
    """A server told to have what the matrix does not ask for is another one."""
    there = seen(spec_types=(types,) if types else ())
    told = [*(["--spec-type", types] if types else []), *flags]
    with pytest.raises(EngineError) as caught:
        check_start(wanted(spec=types), there, told=told)
    assert caught.value.checked == (f"{' '.join(flags)} is said to be set, and is not wanted",)
    check_start((*wanted(spec=types), *flags), there, told=told)


def test_a_whole_command_line_may_be_told() -> None:
    """What is seen of the server, where it listens and what it logs is no difference."""
    told = (
        "-m /x/some.gguf -c 4096 -np 1 --cache-ram 0 --fit off --metrics --slots --host 1.2.3.4 --port 8080 "
    )
    told += "-a name --no-webui --threads-http 2 --api-prefix /x -lv 1 --log-timestamps --timeout 9"
    assert check_start(wanted(), SEEN, told=told.split()) == ()


def test_older_spellings_are_the_same_flag() -> None:
    """--no-mmap is --load-mode none."""
    argv = wanted("--load-mode", "none")
    assert "--load-mode none" in check_start(argv, SEEN)
    assert "--load-mode none" not in check_start(argv, SEEN, told=["--no-mmap"])
    with pytest.raises(EngineError, match="--load-mode none is wanted, --mlock is said"):
        check_start(argv, SEEN, told=["--mlock"])


def test_every_difference_is_said_at_once() -> None:
    """Nobody restarts a 14 GB server three times to learn of three differences."""
    with pytest.raises(EngineError) as caught:
        check_start(wanted(), seen(n_ctx=1, total_slots=2, metrics=False))
    assert len(caught.value.checked) == 3


def test_context_is_rounded_up_as_llama_cpp_does() -> None:
    """A context of 1000 is one of 1024 there; 0 leaves it to the model."""
    check_start(wanted("-c", "1000"), seen(n_ctx=1024))
    check_start(wanted("-c", "0"), seen(n_ctx=32768))


def test_what_the_user_tells_counts() -> None:
    """Flags that no answer tells are taken from the user's word, and compared with it."""
    there = seen(spec_types=("draft-mtp",))
    argv = wanted("--spec-draft-n-max", "2", "-t", "4", spec="draft-mtp")
    assert "-t 4" not in check_start(argv, there, told=["--spec-draft-n-max", "2", "--threads", "4"])
    with pytest.raises(EngineError) as caught:
        check_start(argv, there, told=["--spec-draft-n-max", "3"])
    assert "--spec-draft-n-max 2 is wanted, --spec-draft-n-max 3 is said" in caught.value.checked[0]


def test_what_is_told_and_not_wanted_is_a_difference() -> None:
    """A flag of drafting that the server has and the config does not ask for changes what is measured."""
    there = seen(spec_types=("draft-mtp",))
    told = (*MTP, "--spec-draft-p-min", "0.9")
    with pytest.raises(EngineError) as caught:
        check_start(wanted(*MTP, spec="draft-mtp"), there, told=told)
    assert caught.value.checked == ("--spec-draft-p-min 0.9 is said to be set, and is not wanted",)
    check_start(wanted(), SEEN, told=told)


def test_told_values_are_compared_as_values() -> None:
    """0.50 is 0.5, and --draft-p-min is --spec-draft-p-min."""
    argv = wanted("--spec-draft-p-min", "0.5", spec="draft-mtp")
    check_start(argv, seen(spec_types=("draft-mtp",)), told=["--draft-p-min", "0.50"])


def test_told_types_count_where_the_server_names_none() -> None:
    """A build whose /slots names no types is taken at its user's word; one that does is not."""
    argv = wanted(spec="ngram-simple")
    check_start(argv, seen(spec_types=None), told=["--spec-type", "ngram-simple"])
    with pytest.raises(EngineError, match="the server runs without speculation"):
        check_start(argv, SEEN, told=["--spec-type", "ngram-simple"])


def test_what_remembers_is_measured_on_a_fresh_server() -> None:
    """ngram-cache is measured once on a server that has answered nothing but our own look at it."""
    argv = wanted(spec="ngram-cache")
    told = DEFAULTS["ngram-cache"]
    for n_generated in (0, 1):
        check_start(argv, seen(spec_types=("ngram-cache",), n_generated=n_generated), told=told)
    with pytest.raises(EngineError, match="remembers earlier requests of 2 tokens"):
        check_start(argv, seen(spec_types=("ngram-cache",), n_generated=2), told=told)


@pytest.mark.parametrize("flag", ["-lcs", "-md"])
def test_files_are_compared_by_what_they_hold(tmp_path: Path, flag: str) -> None:
    """A table or draft model at another place is the same one if its bytes are; a foreign host's, by name."""
    here, same, other = (tmp_path / name for name in ("table.lcs", "same.lcs", "other.lcs"))
    here.write_bytes(b"1234")
    same.write_bytes(b"1234")
    other.write_bytes(b"1235")
    there = seen(spec_types=("ngram-cache", "draft-simple"))
    argv = (*wanted(spec="ngram-cache,draft-simple"), flag, str(here))
    for told in (here, same, "/elsewhere/table.lcs"):
        check_start(argv, there, told=[flag, str(told)])
    for told in (other, "/elsewhere/another.lcs"):
        with pytest.raises(EngineError, match=f"{flag} .* is wanted, {flag} .* is said to be set"):
            check_start(argv, there, told=[flag, str(told)])


def test_tokenizing_needs_the_model_alone() -> None:
    """Whatever the server drafts with, it tokenizes; with another model it does not."""
    there = seen(spec_types=("draft-mtp",), n_ctx=1, metrics=False)
    check_model("/here/some.gguf", there, n_vocab=1000, tensor_bytes=5000)
    with pytest.raises(EngineError, match="another model"):
        check_model("/here/some.gguf", there, n_vocab=7, tensor_bytes=5000)


def test_what_is_told_is_recorded() -> None:
    """The record's command line holds what was seen, then what was told and cannot be seen."""
    told = ("-m", "/other/name.gguf", "-c", "1", "--spec-draft-n-max", "2", "-fa", "on")
    engine = UrlEngine("http://host:1", seen(spec_types=("draft-mtp",)), load_s=0.1, told=told)
    assert engine.argv[-6:] == ("--port", "1", "--spec-draft-n-max", "2", "-fa", "on")
    assert engine.argv[:2] == ("-m", "/models/some.gguf")


def test_key_is_shown_nowhere() -> None:
    """Neither the engine's representation nor its record holds the key."""
    engine = UrlEngine("http://host:1", SEEN, load_s=0.1, key="s3cret")
    assert "s3cret" not in repr(engine) + str(engine.describe()) + str(engine.explain_exit())


SECRETS = [
    words
    for flag in (
        "--api-key",
        "--api_key",
        "--api-key-file",
        "--apikey",
        "-api-key",
        "--API-KEY",
        "--api-keys",
    )
    for words in ([flag, "s3cret"], [f"{flag}=s3cret"])
]
SECRETS += [["--hf-token", "s3cret"], ["--hf-token=s3cret"], ["-hft", "s3cret"]]


@pytest.mark.parametrize("words", SECRETS)
@pytest.mark.parametrize(
    "around", [(["-t", "1"], []), ([], ["-t", "1"]), (["lost"], []), (["-t", "1", "-t"], [])]
)
@pytest.mark.parametrize("kind", ["url", "embedded", "binary"])
def test_key_is_not_taken_from_flags(
    words: list[str], around: tuple[list[str], list[str]], kind: str
) -> None:
    """A key among the flags would be recorded: it is refused, and no error shows it, in any form."""
    known = Build("some", flags=(HelpFlag(("-t", "--threads"), "N", ""), HelpFlag(("--api-key",), "KEY", "")))
    vocabularies = {"url": AnyFlags(), "embedded": EmbeddedFlags(), "binary": BinaryFlags(known)}
    argv = [*around[0], *words, *around[1]]
    for read in (vocabularies[kind].group, vocabularies[kind].parse):
        with pytest.raises(EngineError, match="has no place on this command line") as caught:
            read(argv)
        assert "s3cret" not in str(caught.value)
    if kind == "url":
        with pytest.raises(EngineError) as caught:
            check_start(wanted(), SEEN, told=argv)
        assert "s3cret" not in str(caught.value)


def test_the_address_is_recorded() -> None:
    """Two servers are told apart by where they answer, whatever was told of their own --host and --port."""
    for url, told in (("http://host:1/x", ()), ("http://host:1/x", ("--host", "1.2.3.4", "--port", "9"))):
        argv = UrlEngine(url, SEEN, load_s=0.1, told=told).argv
        assert " ".join(argv).endswith("--slots --host host --port 1 --api-prefix /x")
    assert UrlEngine("https://host", SEEN, load_s=0.1).argv[-2:] == ("--port", "443")
    assert UrlEngine("http://[::1]", SEEN, load_s=0.1).argv[-4:] == ("--host", "::1", "--port", "80")


def test_nothing_of_it_can_be_ended() -> None:
    """Stopping does nothing; the record says what the server tells, and null for what it does not."""
    engine = UrlEngine("http://host:1", seen(spec_types=("draft-mtp",)), load_s=0.1, label="theirs")
    engine.stop()
    engine.kill()
    assert engine.alive()
    assert engine.pid is None
    assert engine.log_path is None
    said = engine.describe()
    assert (said.kind, said.label, said.build, said.binary_sha256) == ("url", "theirs", "b11434-abc", None)
    told = "-m /models/some.gguf -c 4096 -np 1 --spec-type draft-mtp --metrics --slots --host host --port 1"
    assert " ".join(said.argv) == told
    assert engine.explain_exit().outcome == "crash"

"""A running server is compared with what a start wants: every difference is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.looker import Seen
from pytest_ngram.engine.url import UrlEngine, check_start
from pytest_ngram.errors import EngineError

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
    check_start(argv, seen(spec_types=("ngram-simple", "draft-mtp")))


@pytest.mark.parametrize(
    ("argv", "there", "said"),
    [
        (wanted(spec="draft-mtp"), SEEN, "draft-mtp is wanted, the server runs without speculation"),
        (wanted(), seen(spec_types=("draft-mtp",)), "no speculation is wanted, the server runs draft-mtp"),
        (wanted(), seen(spec_types=None), "does not tell which types"),
        (wanted(spec="ngram-mod"), seen(spec_types=("ngram-mod",)), "ngram-mod remembers earlier requests"),
        (wanted(), seen(model_path="C/other.gguf"), "some.gguf is wanted, other.gguf is loaded"),
        (wanted(), seen(n_ctx=2048), "-c 4096 is wanted, a slot has 2048"),
        (wanted(), seen(total_slots=4), "-np 1 is wanted, the server has 4 slots"),
        (wanted(), seen(metrics=False), "start the server with --metrics"),
        (wanted(), seen(slots=False), "start the server with --slots"),
        (wanted(), seen(n_vocab=7), "vocabulary (tokens): 1000 are wanted, 7 are loaded"),
        (wanted(), seen(tensor_bytes=7), "weights (bytes): 5000 are wanted, 7 are loaded"),
        (
            wanted("--spec-draft-n-max", "2", spec="draft-mtp"),
            seen(spec_types=("draft-mtp",)),
            "--spec-draft-n-max 2 is wanted, and no answer of the server tells",
        ),
    ],
)
def test_differences_are_refused(argv: tuple[str, ...], there: Seen, said: str) -> None:
    """A server that is not what the config needs is refused with the reason."""
    with pytest.raises(EngineError, match="not the one that this config needs") as caught:
        check_start(argv, there, n_vocab=1000, tensor_bytes=5000)
    assert caught.value.outcome == "refused"
    assert [said in item for item in caught.value.checked] == [True]


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


def test_nothing_of_it_can_be_ended() -> None:
    """Stopping does nothing; the record says what the server tells, and null for what it does not."""
    engine = UrlEngine("http://host:1", seen(spec_types=("draft-mtp",)), load_s=0.1, label="theirs")
    engine.stop()
    engine.kill()
    assert engine.alive()
    assert engine.pid is None
    assert engine.log_path is None
    assert engine.request_timeout_s is not None
    said = engine.describe()
    assert (said.kind, said.label, said.build, said.binary_sha256) == ("url", "theirs", "b11434-abc", None)
    told = "-m /models/some.gguf -c 4096 -np 1 --spec-type draft-mtp --metrics --slots"
    assert " ".join(said.argv) == told
    assert engine.explain_exit().outcome == "crash"

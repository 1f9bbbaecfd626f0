from __future__ import annotations

import pytest

from pytest_ngram.engine import flags
from pytest_ngram.engine.flag_table import FLAGS
from pytest_ngram.errors import EngineError


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("-c 4096", "ctx-size", 4096),
        ("--ctx_size 4096", "ctx-size", 4096),
        ("-ngl all", "n-gpu-layers", -2),
        ("-ngl 99", "n-gpu-layers", 99),
        ("-n -1", "predict", -1),
        ("--spec-draft-p-min 0.75", "spec-draft-p-min", 0.75),
        ("--no-slots", "slots", False),
        ("--slots", "slots", True),
        ("--fit off", "fit", False),
        ("-fit 1", "fit", True),
        ("-fa 0", "flash-attn", "off"),
        ("-fa -1", "flash-attn", "auto"),
        ("-ctk q8_0", "cache-type-k", "q8_0"),
        ("--no-mmap", "load-mode", "none"),
        ("--mlock", "load-mode", "mmap+mlock"),
        ("-lm dio", "load-mode", "dio"),
        ("--no-mmap --mlock", "load-mode", "mlock"),
        ("--mlock --no-mmap", "load-mode", "mlock"),
        ("-ncmoe 999", "n-cpu-moe", 999),
        ("-cmoe", "cpu-moe", 1),
        (r"-ot blk\.1\.=CPU,exps=CUDA0", "override-tensor", (r"blk\.1\.=CPU", "exps=CUDA0")),
        ("--prio -1", "prio", "-1"),
        ("-a one,two", "alias", ("one", "two")),
        ("--spec-type draft-mtp,ngram-cache", "spec-type", ("draft-mtp", "ngram-cache")),
        ("--spec-type draft-mtp --spec-type ngram-mod", "spec-type", ("draft-mtp", "ngram-mod")),
        ("--spec-synth-rates 0.5,0.25", "spec-synth-rates", (0.5, 0.25)),
        ("-td 3", "threads-draft", 3),
        ("--spec-draft-threads-batch 3", "threads-batch-draft", 3),
        ("-v", "verbose", 2**31 - 1),
    ],
)
def test_value_is_typed(line: str, key: str, value: object) -> None:
    """Each kind of flag, in any spelling, becomes one typed value under the flag's key."""
    assert flags.parse(line.split()).values == {key: value}


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("--ubatch-sise 3", "--ubatch-sise is not a flag", "--ubatch-size"),
        ("-c", "-c lacks its value", "whole number"),
        ("-c many", "-c does not take 'many'", "whole number"),
        ("-c -1", "-c does not take '-1'", "from 0"),
        ("--port 70000", "--port does not take '70000'", "65535"),
        ("--spec-draft-p-min nan", "does not take 'nan'", "from 0 to 1"),
        ("-fa maybe", "-fa does not take 'maybe'", "on, off, auto"),
        ("-ctk q8", "-ctk does not take 'q8'", "near: q8_0"),
        ("--spec-type ngram-cach", "does not take 'ngram-cach'", "near: ngram-cache"),
        ("--spec-type draft-mtp,,", "does not take", "ngram-simple"),
        ("-m ", "-m lacks its value", "a text"),
        ("-c 1 --ctx-size 1", "--ctx-size is given twice", "once"),
        ("-v -lv 3", "--verbose and --verbosity", "one of them"),
        ("--ctx-size=3", "joins a flag and its value", "--ctx-size 3"),
        ("stray", "'stray' is not a flag", "take it out"),
        ("--seed 3", "--seed has no place", "with each request"),
        ("--device CUDA0", "--device has no place", "llama-server binary"),
        ("-ot exps", "-ot does not take 'exps'", "PATTERN=BUFFER_TYPE"),
        ("-ot =CPU", "-ot does not take '=CPU'", "PATTERN=BUFFER_TYPE"),
        ("-ncmoe -1", "-ncmoe does not take '-1'", "from 0"),
        ("--no-mmap --no-mmap", "--no-mmap is given twice", "once"),
        ("--tensor-split 1,1", "--tensor-split is not a flag", "llama-server binary"),
        ("--draft-max 3", "--draft-max has no place", "--spec-draft-n-max"),
    ],
)
def test_nothing_is_ignored(line: str, said: str, hint: str) -> None:
    """Every word that cannot be followed is refused by name, with what would be right."""
    with pytest.raises(EngineError) as caught:
        flags.parse(line.split())
    assert caught.value.outcome == "refused"
    assert said in caught.value.cause
    assert hint in caught.value.fix


def test_get_gives_the_default() -> None:
    """A flag that was not given has the caller's default; a key that no flag has is a `KeyError`."""
    parsed = flags.parse(["-ub", "64"])
    assert parsed.get("ubatch-size", 512) == 64
    assert parsed.get("batch-size", 2048) == 2048
    with pytest.raises(KeyError, match="ubatch-sise"):
        parsed.get("ubatch-sise", 512)


def test_spec_types_leave_none_out() -> None:
    """`none` is no type."""
    assert flags.parse(["--spec-type", "none"]).spec_types == ()
    assert flags.parse([]).spec_types == ()


def test_group_keeps_the_words() -> None:
    """Grouping gives each flag's own words by its key, switches without a value."""
    grouped = flags.group(["-c", "64", "--no-mmap", "--no-slots", "--spec-type", "ngram-mod"])
    assert grouped == {
        "ctx-size": ("-c", "64"),
        "load-mode": ("--no-mmap",),
        "slots": ("--no-slots",),
        "spec-type": ("--spec-type", "ngram-mod"),
    }


def test_every_spelling_is_one_flag() -> None:
    """No name and no key stands twice in the table."""
    names = [name for flag in FLAGS for name in (*flag.names, *flag.off_names)]
    assert len(names) == len(set(names))
    assert len({flag.key for flag in FLAGS}) == len(FLAGS)
    assert all(flag.names[0].startswith("--") for flag in FLAGS)

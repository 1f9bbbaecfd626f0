from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_ngram.engine import flags, preflight
from pytest_ngram.errors import EngineError
from pytest_ngram.table.price import Need, Price

GIB = 2**30


@dataclass(frozen=True)
class Model:
    path: Path = Path("m.gguf")
    arch: str = "qwen35moe"
    nextn: int = 1
    n_ctx_train: int = 4096
    recurrent_layers: int = 3
    n_vocab: int = 1000


PLAIN = Model(arch="llama", nextn=0, recurrent_layers=0)


def check(line: str, model: Model = Model()) -> tuple[str, ...]:
    return preflight.check(model, flags.parse(line.split()))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.bin"
    path.touch()
    return path


def test_nothing_to_say() -> None:
    """A command line that fits raises nothing and warns of nothing."""
    assert check("-c 4096 --spec-type draft-mtp,ngram-simple --spec-draft-n-max 3 -ub 512") == ()


def test_mtp_needs_a_nextn_block() -> None:
    """draft-mtp on a model without MTP layers is refused, and the file is named."""
    with pytest.raises(EngineError, match="no MTP block") as caught:
        check("--spec-type draft-mtp", PLAIN)
    assert "m.gguf: llama, 0 nextn layers" in caught.value.checked


@pytest.mark.parametrize(
    ("line", "model", "fits"),
    [
        ("--spec-type draft-mtp --spec-draft-n-max 3 -ub 5", Model(), True),
        ("--spec-type draft-mtp --spec-draft-n-max 3 -ub 4", Model(), False),
        ("--spec-type draft-mtp -ub 4", Model(), False),
        ("--spec-type draft-mtp --spec-draft-n-max 3 -b 4", Model(), False),
        ("--spec-type draft-mtp --spec-draft-n-max 3 -ub 4", Model(recurrent_layers=0), True),
        ("--spec-type draft-mtp --spec-draft-n-max 3 -ub 3", Model(recurrent_layers=0), False),
        ("--spec-type ngram-simple -ub 1", Model(), True),
        ("-ub 1", Model(), True),
    ],
)
def test_ubatch_holds_a_verify_batch(line: str, model: Model, fits: bool) -> None:
    """-ub and -b hold 1 + n_max tokens with a drafting model, one more on a recurrent one."""
    if fits:
        assert check(line, model) == ()
    else:
        with pytest.raises(EngineError, match="too small for drafts of 3 tokens") as caught:
            check(line, model)
        assert caught.value.outcome == "refused"


def test_context_beyond_training_is_a_warning() -> None:
    """-c beyond the training context works, and is said with both numbers."""
    (warning,) = check("-c 5000")
    assert "5000" in warning
    assert "4096" in warning


def test_table_needs_a_reader(table: Path) -> None:
    """A table without ngram-cache is refused; ngram-cache without a table is legitimate."""
    assert check("--spec-type ngram-cache") == ()
    assert check(f"--spec-type ngram-cache -lcs {table}") == ()
    with pytest.raises(EngineError, match="-lcs names a table that no type reads"):
        check(f"--spec-type ngram-simple -lcs {table}")


def test_table_must_be_there(tmp_path: Path) -> None:
    """A missing table, which would abort the server, is refused before."""
    with pytest.raises(EngineError, match="table is not there"):
        check(f"--spec-type ngram-cache -lcs {tmp_path / 'none.bin'}")


def test_draft_model_and_type_belong_together(table: Path) -> None:
    """draft-simple needs -md, -md needs a drafting type, and the file must be there."""
    assert check(f"--spec-type draft-simple -md {table}") == ()
    for name in ("draft-simple", "draft-eagle3"):
        with pytest.raises(EngineError, match=f"{name} drafts with a second model, and none is named"):
            check(f"--spec-type {name}")
    with pytest.raises(EngineError, match="no type uses"):
        check(f"--spec-type ngram-mod -md {table}")
    with pytest.raises(EngineError, match="draft model is not there"):
        check("--spec-type draft-simple -md /no/such.gguf")


@pytest.mark.parametrize(
    ("n_vocab", "differ_at", "fits"),
    [
        (1000, None, True),
        (1128, None, True),
        (872, None, True),
        (1129, None, False),
        (871, None, False),
        (1000, 7, False),
        (1128, 999, False),
    ],
)
def test_a_draft_model_has_the_same_vocabulary(n_vocab: int, differ_at: int | None, fits: bool) -> None:
    """As llama.cpp has it: 128 tokens more or fewer at the end are fine, another text for an id is not."""
    draft = Model(path=Path("d.gguf"), n_vocab=n_vocab)
    if fits:
        preflight.check_draft(Model(), draft, differ_at)
    else:
        with pytest.raises(EngineError, match="another vocabulary") as caught:
            preflight.check_draft(Model(), draft, differ_at)
        assert caught.value.checked == ("m.gguf: 1000 tokens", f"d.gguf: {n_vocab} tokens")


def test_memory_that_fits() -> None:
    """Enough for file and buffers: nothing to say."""
    assert preflight.check_memory(2 * GIB, GIB, 4 * GIB, force=False) is None


def test_model_larger_than_free_is_a_warning() -> None:
    """Running from the page cache is legitimate: warned with the numbers, not refused."""
    warning = preflight.check_memory(14 * GIB, GIB, 10 * GIB, force=False)
    assert warning is not None
    assert all(number in warning for number in ("14.00 GiB", "1.00 GiB", "10.00 GiB"))


def test_anonymous_need_beyond_available_is_refused() -> None:
    """What cannot be paged must fit; --force turns the refusal into a warning."""
    with pytest.raises(EngineError, match=r"needs 5\.00 GiB of its own, 4\.00 GiB are available"):
        preflight.check_memory(GIB, 5 * GIB, 4 * GIB, force=False)
    assert "5.00 GiB" in (preflight.check_memory(GIB, 5 * GIB, 4 * GIB, force=True) or "")


def need(n_bytes: int, slots: int = 1) -> Need:
    """What a table of so many bytes needs; its advice says for how much room it was asked."""
    price = Price(anon_bytes=n_bytes, peak_bytes=0, load_s=0.0)
    return Need(
        "chats.lcs", 10, 20, slots, price, "measured here", lambda room: f"prune it to {room / GIB:.2f}"
    )


def test_a_table_has_to_fit_beside_the_model() -> None:
    """A model that could be paged is refused with a table that takes its pages, with all numbers."""
    assert preflight.check_memory(2 * GIB, GIB, 4 * GIB, table=need(GIB), force=False) is None
    with pytest.raises(
        EngineError, match=r"needs 2\.00 GiB, with model and caches 5\.00 GiB; 4\.00"
    ) as caught:
        preflight.check_memory(2 * GIB, GIB, 4 * GIB, table=need(2 * GIB), force=False)
    assert caught.value.outcome == "refused"
    assert "10 keys, 20 pairs, -np 1: predicted; measured here" in caught.value.checked
    assert caught.value.fix == "prune it to 1.00; or give --ngram-force"


def test_a_table_is_refused_by_its_peak_too() -> None:
    """What counts is the most that is resident at once, be it only while the table is loaded."""
    peaky = replace(need(0), price=Price(anon_bytes=0, peak_bytes=5 * GIB, load_s=0.0))
    with pytest.raises(EngineError, match=r"needs 5\.00 GiB; 4\.00 GiB are available"):
        preflight.check_memory(0, 0, 4 * GIB, table=peaky, force=False)


def test_fewer_slots_are_advised_where_there_are_many() -> None:
    """Each slot has a copy; there is never less than no room to be advised about."""
    with pytest.raises(EngineError) as caught:
        preflight.check_memory(
            5 * GIB, GIB, 4 * GIB, table=need(GIB, slots=4), force=False, override="--force"
        )
    assert caught.value.fix == (
        "prune it to 0.00; or take fewer slots than -np 4: each has a copy of the table; or give --force"
    )


def test_a_table_can_be_forced() -> None:
    """The refusal becomes a warning with the same numbers."""
    warning = preflight.check_memory(2 * GIB, GIB, 4 * GIB, table=need(2 * GIB), force=True)
    assert warning is not None
    assert "needs 2.00 GiB, with model and caches 5.00 GiB" in warning

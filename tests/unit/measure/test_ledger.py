"""The ledger: what a resumed run takes over, and what it measures again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pytest_ngram.errors import OptionError, RecordError
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.matrix.spec import MatrixSpec
from pytest_ngram.measure.journal import JOURNAL, Header
from pytest_ngram.measure.ledger import Ledger, open_ledger
from pytest_ngram.record import (
    ECHO,
    Engine,
    Host,
    Leakage,
    Model,
    Outcome,
    Prompt,
    Record,
    ServerStart,
    Table,
)

HEADER = Header(journal=JOURNAL, version="0", matrix_sha256="ab", profile="smoke", seed=1)
Save = Callable[[Iterable[tuple[PlannedCell, str]]], Ledger]


@pytest.fixture
def resumed(tmp_path: Path, record_of: Callable[..., Record]) -> Save:
    """Write a journal of cells with their outcomes and open it again."""

    def save(cells: Iterable[tuple[PlannedCell, str]]) -> Ledger:
        path = tmp_path / "j.jsonl"
        ledger = Ledger(path, HEADER)
        for planned, status in cells:
            ledger.add(record_of(planned, status))
        ledger.close()
        return open_ledger(HEADER, resume=path, journal=None, default=lambda: path)

    return save


def of_config(cells: list[PlannedCell], config: str) -> list[PlannedCell]:
    return [cell for cell in cells if cell.start.config == config]


def test_measured_cells_are_taken_over(resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec) -> None:
    """Cells that ended well are not measured again."""
    ledger = resumed((cell, "ok") for cell in cells)
    ledger.choose(cells, matrix)
    assert set(ledger.restored) == {cell.cell for cell in cells}


def test_failed_cells_are_measured_again(resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec) -> None:
    """A crash or a hang is no result to go on with."""
    first, second = of_config(cells, "mtp1")
    ledger = resumed([(first, "ok"), (second, "hang")])
    ledger.choose(cells, matrix)
    assert set(ledger.restored) == {first.cell}


def test_a_stateful_start_is_taken_over_whole_or_not_at_all(
    resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec
) -> None:
    """ngram-cache drafts from earlier prompts, which a fresh server has not seen."""
    first = of_config(cells, "ngram-cache")[0]
    partial = resumed([(first, "ok")])
    partial.choose(cells, matrix)
    assert partial.restored == {}


def test_a_whole_stateful_start_is_taken_over(
    resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec
) -> None:
    """Once all its cells are there, the start need not be repeated."""
    ledger = resumed((cell, "ok") for cell in of_config(cells, "ngram-cache"))
    ledger.choose(cells, matrix)
    assert len(ledger.restored) == 2


def test_a_restored_cell_is_not_written_twice(
    resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """The journal holds each result once, however often the run is resumed."""
    ledger = resumed([(cells[0], "ok")])
    ledger.choose(cells, matrix)
    before = ledger.path.read_bytes()
    ledger.add(record_of(cells[0]))
    assert ledger.path.read_bytes() == before
    assert len(ledger.records) == 1


@pytest.mark.parametrize(
    "change", [{"profile": "full"}, {"matrix_sha256": "cd"}, {"seed": 2}, {"version": "9"}]
)
def test_a_journal_of_another_run_is_refused(
    resumed: Save, cells: list[PlannedCell], change: dict[str, object]
) -> None:
    """Another matrix, profile, seed or version: an error that names what differs."""
    path = resumed([(cells[0], "ok")]).path
    fields = {name: getattr(HEADER, name) for name in Header.__struct_fields__}
    with pytest.raises(OptionError, match=next(iter(change))):
        open_ledger(Header(**{**fields, **change}), resume=path, journal=None, default=lambda: path)


def test_a_prompt_that_becomes_other_ids_is_an_error(tmp_path: Path) -> None:
    """Template or tokenizer changed in the middle of a run: nothing after it compares with before."""
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.add_prompt(Prompt(model="m", prompt="p", prompt_set="s", tokens="x"))
    ledger.add_prompt(Prompt(model="m", prompt="p", prompt_set="s", tokens="x"))
    with pytest.raises(RecordError, match="other token ids"):
        ledger.add_prompt(Prompt(model="m", prompt="p", prompt_set="s", tokens="y"))


def test_nothing_measured_leaves_no_file(tmp_path: Path) -> None:
    """`--collect-only` writes no journal."""
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.close()
    assert not (tmp_path / "j").exists()


def test_the_run_tells_an_interrupted_session(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """measured_cells below planned_cells says that the JSON is not of a whole run."""
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.choose(cells, matrix)
    ledger.add(record_of(cells[0], "crash"))
    run = ledger.run_file()
    assert (run.run.planned_cells, run.run.measured_cells) == (len(cells), 1)
    assert [record.outcome.status for record in run.failed_cells] == ["crash"]


def test_cells_of_two_servers_are_no_whole_stateful_start(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """p measured on a replacement and q on the first server: q's server had not seen p, so both go again."""
    first, second = of_config(cells, "ngram-cache")
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.add(record_of(second, serial=1))
    ledger.add(record_of(first, serial=2))
    ledger.close()
    again = open_ledger(HEADER, resume=tmp_path / "j", journal=None, default=lambda: tmp_path)
    again.choose(cells, matrix)
    assert again.restored == {}


def test_starts_are_numbered_through_all_sessions(tmp_path: Path) -> None:
    """A resumed run goes on counting, so that a serial names one server of the whole journal."""
    ledger = Ledger(tmp_path / "j", HEADER)
    assert ledger.next_serial == 1
    ledger.add_start(
        ServerStart(
            serial=7, model="m", config="c", temperature=0.0, block=1, pass_="first", load_s=1.0, warmup_s=1.0
        )
    )
    ledger.close()
    assert open_ledger(HEADER, resume=tmp_path / "j", journal=None, default=lambda: tmp_path).next_serial == 8


def test_another_table_is_refused(resumed: Save, cells: list[PlannedCell], matrix: MatrixSpec) -> None:
    """An edited corpus makes another table: its cells do not stand beside those of the old one."""
    ledger = resumed((cell, "ok") for cell in of_config(cells, "ngram-cache"))
    ledger.choose(cells, matrix)
    ledger.check_table("alpha", "ngram-cache", None)
    ledger.check_table("alpha", "mtp1", Table(sha256="x", keys=1, pairs=1, bytes=28))
    with pytest.raises(RecordError, match="another table"):
        ledger.check_table("alpha", "ngram-cache", Table(sha256="x", keys=1, pairs=1, bytes=28))


def test_another_draft_model_is_refused(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """What draft-simple drafts depends on the second model's file: another one makes other cells."""

    def draft(sha256: str) -> Model:
        return Model("d", sha256, "llama", 1, "v", 1, None, 0)

    ledger = Ledger(tmp_path / "j", HEADER)
    for planned in of_config(cells, "mtp1"):
        ledger.add(msgspec.structs.replace(record_of(planned), draft_model=draft("aa")))
    ledger.close()
    again = open_ledger(HEADER, resume=tmp_path / "j", journal=None, default=lambda: tmp_path)
    again.choose(cells, matrix)
    again.check_draft("alpha", "mtp1", draft("aa"))
    again.check_draft("alpha", "ngram-cache", None)
    for now in (draft("bb"), None):
        with pytest.raises(RecordError, match="another draft model"):
            again.check_draft("alpha", "mtp1", now)


def test_another_processor_is_refused(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """A journal that was carried to another machine is not gone on with there."""
    host = Host(
        cpu="A",
        cores=2,
        isa=("avx",),
        load1=None,
        psi_cpu=None,
        cpu_busy=None,
        gpu_busy=None,
        vram_mb=None,
        temp_c=None,
        governor=None,
    )
    ledger = Ledger(tmp_path / "j", HEADER)
    ledger.add(msgspec.structs.replace(record_of(cells[0]), host=host))
    ledger.close()
    again = open_ledger(HEADER, resume=tmp_path / "j", journal=None, default=lambda: tmp_path)
    again.choose(cells, matrix)
    again.check_host("A", ("avx",))
    for cpu, isa in [("B", ("avx",)), ("A", ("avx", "avx2"))]:
        with pytest.raises(RecordError, match="another processor"):
            again.check_host(cpu, isa)


URL = "-m /x/a.gguf -c 4096 -np 1 --metrics --slots --host box --port 8080 -t 1"
MTP = f"{URL} --spec-type draft-mtp --spec-draft-n-max 1"


def url_engine(argv: str, **changes: Any) -> Engine:
    engine = Engine(
        kind="url",
        package=None,
        version=None,
        build="b1",
        label=None,
        binary_sha256=None,
        argv=tuple(argv.split()),
        spec_types=(),
        capabilities={},
    )
    return msgspec.structs.replace(engine, **changes)


@pytest.fixture
def resumed_on_url(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> Ledger:
    """A journal of `none` on one server at a URL and of `mtp1` on the next one at the same address."""
    ledger = Ledger(tmp_path / "j", HEADER)
    for config, argv in (("none", URL), ("mtp1", MTP)):
        for planned in of_config(cells, config):
            ledger.add(msgspec.structs.replace(record_of(planned), engine=url_engine(argv)))
    ledger.close()
    again = open_ledger(HEADER, resume=tmp_path / "j", journal=None, default=lambda: tmp_path)
    again.choose(cells, matrix)
    return again


@pytest.mark.parametrize(
    "argv",
    [
        URL,
        MTP,
        URL.replace("-t 1", "--threads 1"),
        URL.replace("a.gguf", "a.gguf --spec-type ngram-cache -lcs T --threads-draft 1"),
    ],
)
def test_the_next_server_at_a_url_may_draft_otherwise(resumed_on_url: Ledger, argv: str) -> None:
    """One server measures one config: its drafting differs, and the spelling of a flag makes no other one."""
    resumed_on_url.check_engine(url_engine(argv), "alpha")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (URL.replace("8080", "8081"), "then --port 8080, now --port 8081"),
        (URL.replace("box", "other"), "then --host box, now --host other"),
        (f"{URL} --api-prefix /x", "then no --api-prefix, now --api-prefix /x"),
        (f"{URL} -ngl 99", "then no --n-gpu-layers, now --n-gpu-layers 99"),
        (f"{URL} -ctk q4_0", "then no --cache-type-k, now --cache-type-k q4_0"),
        (URL.replace(" -t 1", ""), "then --threads 1, now no --threads"),
        (URL.replace("-t 1", "-t 2"), "then --threads 1, now --threads 2"),
        (URL.replace("4096", "8192"), "then --ctx-size 4096, now --ctx-size 8192"),
        (URL.replace(" --host box --port 8080", ""), "then --host box, now no --host"),
    ],
)
def test_another_server_at_a_url_is_refused(resumed_on_url: Ledger, argv: str, said: str) -> None:
    """Build alone does not tell servers apart: where they answer and what is told of them does."""
    with pytest.raises(RecordError, match="measured by another engine") as caught:
        resumed_on_url.check_engine(url_engine(argv), "alpha")
    assert said in caught.value.checked
    assert not caught.value.checked[0].startswith("then url b1, now")


def test_another_model_at_a_url_has_flags_of_its_own(resumed_on_url: Ledger) -> None:
    """What is told may differ between two models; the address and the build may not."""
    other = URL.replace("a.gguf -c 4096", "b.gguf -c 8192 -ngl 99")
    resumed_on_url.check_engine(url_engine(other), "beta")
    for engine in (url_engine(other.replace("box", "other")), url_engine(other, build="b2")):
        with pytest.raises(RecordError, match="measured by another engine"):
            resumed_on_url.check_engine(engine, "beta")


def test_a_config_is_judged_when_the_last_of_its_cells_has_ended(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """Before that another cell may still draft; a cell whose test was skipped is not waited for."""
    ledger = Ledger(tmp_path / "j.jsonl", HEADER)
    ledger.choose(cells, matrix)
    first, second = of_config(cells, "mtp1")
    ledger.add(record_of(first))
    assert ledger.alike(first.cell) is None
    ledger.leave_out(second.cell)
    assert ledger.alike(first.cell) == [record_of(first)]
    assert ledger.alike(of_config(cells, "none")[0].cell) is None


def test_a_judged_cell_is_failed_and_the_journal_keeps_what_was_measured(
    tmp_path: Path, cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record]
) -> None:
    """Inert cells stand among the failed ones, and a run that goes on does not measure them again."""
    path = tmp_path / "j.jsonl"
    ledger = Ledger(path, HEADER)
    ledger.choose(cells, matrix)
    for planned in cells:
        ledger.add(record_of(planned, "crash" if planned == of_config(cells, "mtp1")[1] else "ok"))
    alike = ledger.alike(of_config(cells, "mtp1")[0].cell)
    assert alike is not None
    judged = ledger.judge(alike, Outcome(status="inert", reason="never"))
    assert [record.outcome.status for record in judged] == ["inert", "crash"]
    assert [record.outcome.status for record in ledger.failed()] == ["inert", "crash"]
    assert len(ledger.run_file().failed_cells) == 2
    ledger.close()
    again = open_ledger(HEADER, resume=path, journal=None, default=lambda: path)
    again.choose(cells, matrix)
    assert len(again.restored) == len(cells) - 1


def test_a_table_is_known_whatever_leaks_into_it(
    cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record], tmp_path: Path
) -> None:
    """What is known of a cell's prompt is no other table, so its run goes on."""
    table = Table(sha256="ab", keys=1, pairs=1, bytes=16)
    leakage = Leakage(run=9, share=0.0, of_one_message=0.0, exact=0, near=0, at=None)
    (cell, *_rest) = of_config(cells, "mtp1")
    saved = replace(record_of(cell), table=replace(table, leakage=leakage))
    path = tmp_path / "k.jsonl"
    ledger = Ledger(path, HEADER)
    ledger.add(saved)
    ledger.close()
    again = open_ledger(HEADER, resume=path, journal=None, default=lambda: path)
    again.choose([cell], matrix)
    assert again.restored[cell.cell] == saved
    again.check_table("alpha", "mtp1", table)
    with pytest.raises(RecordError, match="another table"):
        again.check_table("alpha", "mtp1", replace(table, sha256="cd"))


def test_echo_cells_are_judged_with_no_others(
    cells: list[PlannedCell], matrix: MatrixSpec, record_of: Callable[..., Record], tmp_path: Path
) -> None:
    """A type that drafts on a corpus' own prompts alone did not take part, and nobody waits for these."""
    real = of_config(cells, "ngram-cache")
    echo = replace(real[0], prompt="echo-1", prompt_set=ECHO)
    ledger = Ledger(tmp_path / "j.jsonl", HEADER)
    ledger.choose([*real, echo], matrix)
    for planned in real:
        ledger.add(record_of(planned))
    assert [record.cell for record in ledger.alike(real[0].cell) or []] == [each.cell for each in real]
    ledger.add(record_of(echo))
    assert len(ledger.alike(real[0].cell) or []) == 2

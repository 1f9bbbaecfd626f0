"""Two runs: only what both have is compared, and what must not be is not, with the reason and no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_ngram.matrix.spec import STATEFUL_TYPES
from pytest_ngram.record import Disturbance, Host, Model, Record, RunData, Server
from pytest_ngram.report.compare import compare_lines
from pytest_ngram.verdict.comparison import Comparison, ConfigChange, ModelChange, compare
from pytest_ngram.verdict.setting import flags_of

Make = Callable[..., RunData]
Change = Callable[[RunData, Callable[[Record], Record]], RunData]


def only(compared: Comparison) -> ModelChange:
    (model,) = compared.models
    return model


def of(compared: Comparison, config: str = "mtp1") -> ConfigChange:
    return next(each for each in only(compared).configs if each.config == config)


def test_a_slower_config_is_slower_by_so_much(make_run: Make) -> None:
    """mtp1 takes 1.25 times as long: tg −20 %, and so its ratio to none; all of it is verify."""
    found = compare(make_run("old"), make_run("new", slower={"mtp1": 1.25}))
    figures = of(found).figures
    assert figures["tg"].change == pytest.approx(-0.2)
    assert figures["gain"].change == pytest.approx(-0.2)
    assert figures["acceptance"].change == figures["coverage"].change == 0
    assert of(found, "none").figures["tg"].change == pytest.approx(0)
    attribution = of(found).attribution
    assert attribution is not None
    assert attribution.parts["verify"] == pytest.approx(attribution.change_ms)
    assert attribution.change_ms == pytest.approx(0.25 * attribution.old_ms)


def test_a_slower_host_is_no_smaller_gain(make_run: Make) -> None:
    """All is half as fast: tg says so of every config, and the ratio to none does not."""
    found = of(compare(make_run("old"), make_run("new", slower={"none": 2.0, "mtp1": 2.0}))).figures
    assert found["tg"].change == pytest.approx(-0.5)
    assert found["gain"].change == pytest.approx(0)


def test_fewer_accepted_tokens_are_seen_as_such(make_run: Make) -> None:
    """The same step times and fewer accepted tokens: the change of a token's cost is acceptance alone."""
    found = of(compare(make_run("old"), make_run("new", accepted=10)))
    assert found.attribution is not None
    moved = {part for part, ms in found.attribution.parts.items() if abs(ms) > 1e-9}
    assert moved == {"acceptance"}
    assert found.attribution.change_ms > 0


def test_old_and_new_exchanged(make_run: Make) -> None:
    """The ratios are each other's inverse."""
    old, new = make_run("old"), make_run("new", slower={"mtp1": 1.3})
    there, back = of(compare(old, new)).figures["tg"], of(compare(new, old)).figures["tg"]
    assert there.change is not None
    assert back.change is not None
    assert (1 + there.change) * (1 + back.change) == pytest.approx(1)


def test_only_cells_of_both_sides(make_run: Make) -> None:
    """Three blocks against one: one block is compared, and what is left out is counted. Never 3 against 1."""
    found = of(compare(make_run("old", blocks=3), make_run("new", blocks=1, prompts=("p", "r"))))
    assert (found.cells, found.only_old, found.only_new) == (1, 5, 1)
    assert (found.blocks, found.prompts) == (1, 1)
    assert found.figures["tg"].low is None


def test_disturbed_cells_are_in_no_speed(make_run: Make, change_cells: Change) -> None:
    """A cell that was contended on a side is in no speed of any; what was counted in it is still true."""

    def disturb(record: Record) -> Record:
        hit = record.cell.block == 2 and record.cell.config == "mtp1"
        return replace(record, disturbance=Disturbance(contended=("others took 30 %",))) if hit else record

    found = of(compare(make_run("old"), change_cells(make_run("new"), disturb)))
    assert (found.cells, found.disturbed) == (6, 2)
    assert found.figures["tg"].blocks == 2
    assert found.figures["acceptance"].blocks == 3


def another(field: str, **changes: Any) -> Callable[[Record], Record]:
    return lambda record: replace(record, **{field: replace(getattr(record, field), **changes)})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (another("model", sha256="9" * 64), "another-model"),
        (another("host", cpu="another"), "another-host"),
        (another("host", cores=8), "another-host"),
        (another("host", isa=("avx2", "avx512f")), "another-host"),
        (another("engine", argv=("-c", "4096", "-t", "2")), "another-flags"),
    ],
    ids=["model", "cpu", "cores", "isa", "flags"],
)
def test_what_may_not_be_compared_has_no_number(
    make_run: Make, change_cells: Change, change: Callable[[Record], Record], code: str
) -> None:
    """Another model file, host or flags of the model: the reason with both values, and not one figure."""
    found = compare(make_run("old"), change_cells(make_run("new"), change))
    model = only(found)
    assert [why.code for why in model.not_comparable] == [code]
    assert not found.any
    assert all(config.figures == {} and config.attribution is None for config in model.configs)
    assert found.differences[0].forbids
    assert "%" not in "".join(line for line in compare_lines(found) if line.startswith("m,"))


def test_another_n_predict(make_run: Make) -> None:
    """Answers that were cut off at 41 tokens and at 21."""
    model = only(compare(make_run("old"), make_run("new", tokens=20, accepted=8)))
    assert [why.code for why in model.not_comparable] == ["another-n-predict"]
    assert model.not_comparable[0].values == {"old": "41", "new": "21"}


def test_answers_that_end_by_themselves_are_no_other_n_predict(make_run: Make, change_cells: Change) -> None:
    """A shorter answer that was not cut off tells nothing of n_predict; a longer one than the cut does."""
    ended = another_stop("eos")
    short = change_cells(make_run("new", tokens=20, accepted=8), ended)
    assert only(compare(make_run("old"), short)).not_comparable == ()
    long = change_cells(make_run("new", tokens=80), ended)
    assert [why.code for why in only(compare(make_run("old"), long)).not_comparable] == ["another-n-predict"]


def another_stop(stop: str) -> Callable[[Record], Record]:
    return lambda record: replace(record, rounds=tuple(replace(r, stop=stop) for r in record.rounds))


def test_other_ids_of_a_prompt(make_run: Make) -> None:
    """A prompt with the same name and other ids is another prompt, and so is one whose ids are not told."""
    run = make_run("new")
    other = replace(run, prompts=tuple(replace(each, tokens="x") for each in run.prompts))
    untold = replace(run, prompts=())
    for new in (other, untold):
        model = only(compare(make_run("old"), new))
        assert [why.code for why in model.not_comparable] == ["another-prompts"]


def test_another_temperature_is_another_cell(make_run: Make, change_cells: Change) -> None:
    """Nothing is compared across temperatures, and both are named."""
    warm = change_cells(make_run("new"), another("cell", temperature=0.7))
    found = compare(make_run("old"), warm)
    assert found.models == ()
    assert (found.only_old, found.only_new) == (("m, temperature 0",), ("m, temperature 0.7",))
    assert any("nothing to compare" in line for line in compare_lines(found))


def test_no_draft_on_either_side(make_run: Make) -> None:
    """A drafting config that drafted on neither side is the baseline under another name: no ratio."""
    found = of(compare(make_run("old", drafts=False), make_run("new", drafts=False)))
    assert [why.code for why in found.not_comparable] == ["no-draft-on-either-side"]
    assert found.figures == {}


def test_a_draft_on_one_side_is_compared(make_run: Make) -> None:
    """A drafter that fell silent since: the loss is coverage, and acceptance is not known."""
    found = of(compare(make_run("old"), make_run("new", drafts=False)))
    assert found.figures["coverage"].change == -1
    assert found.figures["acceptance"].change is None
    assert found.figures["acceptance"].old == pytest.approx(16 / 24)


def test_a_type_that_remembers_other_requests(make_run: Make, change_cells: Change) -> None:
    """What ngram-cache drafts depends on the requests before; cells that met others are left out and told."""
    configs = ("none", "ngram-cache")
    later = change_cells(make_run("new", configs=configs), lambda r: replace(r, server=Server(1, 3)))
    found = compare(make_run("old", configs=configs), later, stateful=STATEFUL_TYPES)
    assert [why.code for why in of(found, "ngram-cache").not_comparable] == ["another-state"]
    assert of(found, "none").cells == 12


def test_differences_stand_first_and_forbid_nothing_by_themselves(
    make_run: Make, change_cells: Change
) -> None:
    """A bump: the build differs, is listed before any figure, and all is compared."""
    bumped = change_cells(
        make_run("new", slower={"mtp1": 1.1}),
        another("engine", build="b2", binary_sha256="5" * 64, capabilities={"metrics": False}),
    )
    found = compare(make_run("old"), bumped)
    assert [(each.what, each.old, each.new) for each in found.differences] == [
        ("build", "b1", "b2"),
        ("binary", "3" * 12, "5" * 12),
        ("metrics", "yes", "no"),
    ]
    assert found.any
    lines = compare_lines(found)
    assert lines[1].split() == ["what", "differs", "before", "now"]


def test_a_flag_of_a_config_may_differ(make_run: Make, change_cells: Change) -> None:
    """n_max of mtp1 changed: listed under the config, compared."""

    def deeper(record: Record) -> Record:
        assert record.engine is not None
        argv = tuple(
            "3" if word == "1" and record.cell.config == "mtp1" else word for word in record.engine.argv
        )
        argv = tuple("1" if argv[i - 1] == "-t" else word for i, word in enumerate(argv))
        return replace(record, engine=replace(record.engine, argv=argv))

    found = compare(make_run("old"), change_cells(make_run("new"), deeper))
    (difference,) = found.differences
    assert (difference.of, difference.old, difference.new) == (
        "m/mtp1",
        "--spec-draft-n-max 1",
        "--spec-draft-n-max 3",
    )
    assert of(found).figures


def test_flags_without_what_a_run_sets() -> None:
    """Paths and ports are no flags of a model; order does not matter; negative values are values."""
    assert flags_of(["-m", "/a", "-t", "4", "--port", "0", "--temp", "-1", "-fa", "--metrics"]) == flags_of(
        ["-fa", "--temp", "-1", "-m", "/b", "-t", "4", "--port", "9"]
    )
    assert flags_of(["--temp", "-1", "-fa"]) == (("--temp", "-1"), ("-fa",))


def test_a_host_that_nobody_tells_is_not_the_same(make_run: Make, change_cells: Change) -> None:
    """Null on one side only is a difference; the same null on both is none."""

    def blind(record: Record) -> Record:
        assert isinstance(record.host, Host)
        return replace(record, host=replace(record.host, cpu=None))

    dark = change_cells(make_run("new"), blind)
    assert [why.code for why in only(compare(make_run("old"), dark)).not_comparable] == ["another-host"]
    assert only(compare(dark, dark)).not_comparable == ()


def test_a_model_may_be_called_host(make_run: Make, change_cells: Change) -> None:
    """Another file of a model with such a name forbids that model, and says so."""

    def named(record: Record) -> Record:
        return replace(record, cell=replace(record.cell, model="host"))

    old, new = (change_cells(make_run(name), named) for name in ("old", "new"))
    ids = [replace(each, model="host") for each in old.prompts]
    old, new = (replace(run, prompts=tuple(ids)) for run in (old, new))
    found = only(compare(old, change_cells(new, another("model", sha256="9" * 64))))
    assert [why.code for why in found.not_comparable] == ["another-model"]


def test_models_of_one_side_are_named(make_run: Make, change_cells: Change) -> None:
    """A model that the other run has not is told, and in no table."""

    def renamed(record: Record) -> Record:
        assert isinstance(record.model, Model)
        return replace(record, cell=replace(record.cell, model="other"))

    found = compare(make_run("old"), change_cells(make_run("new"), renamed))
    assert (found.only_old, found.only_new) == (("m",), ("other",))


def test_the_same_answers_are_counted(make_run: Make, change_cells: Change) -> None:
    """Whether a bump changed the text stands beside what it changed in speed; untold texts are no zero."""
    assert of(compare(make_run("old"), make_run("new"))).same_answers == 6
    silent = change_cells(
        make_run("new"),
        lambda record: replace(
            record, rounds=tuple(replace(r, tokens=None, text_sha256=None) for r in record.rounds)
        ),
    )
    assert of(compare(make_run("old"), silent)).same_answers is None


def test_n_predict_that_is_told_counts_although_the_answers_ended_early(
    make_run: Make, change_cells: Change
) -> None:
    """An engine that ends its answers early hides no other n_predict, if one side was cut off by its own."""
    old = change_cells(make_run("old"), asked_for(41))
    short = change_cells(make_run("new", tokens=10, accepted=4), another_stop("eos"))
    assert [w.code for w in only(compare(old, change_cells(short, asked_for(512)))).not_comparable] == [
        "another-n-predict"
    ]
    assert only(compare(old, change_cells(short, asked_for(41)))).not_comparable == ()
    ended = change_cells(old, another_stop("eos"))
    assert only(compare(ended, change_cells(short, asked_for(512)))).not_comparable == ()


def asked_for(n_predict: int) -> Callable[[Record], Record]:
    return lambda record: replace(
        record, rounds=tuple(replace(r, n_predict=n_predict) for r in record.rounds)
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("-t", "2", "-t", "4"), ("-t", "4", "-t", "2")),
        (("-t", "4"), ("-t", "4", "-t", "2")),
        (("-ot", "a=CPU", "-ot", "b=CPU"), ("-ot", "b=CPU", "-ot", "a=CPU")),
    ],
)
def test_of_a_flag_that_stands_twice_the_order_counts(
    make_run: Make, change_cells: Change, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    """llama.cpp takes the last of two: the same words in another order are other flags of the model."""

    def with_flags(words: tuple[str, ...]) -> RunData:
        def add(record: Record) -> Record:
            engine = record.engine
            assert engine is not None
            return replace(record, engine=replace(engine, argv=(*engine.argv, *words)))

        return change_cells(make_run("run"), add)

    changed = only(compare(with_flags(old), with_flags(new)))
    assert [why.code for why in changed.not_comparable] == ["another-flags"]
    assert only(compare(with_flags(new), with_flags(new))).not_comparable == ()


def test_what_a_server_remembers_is_which_requests_not_how_many(make_run: Make) -> None:
    """The same number of requests before, of other prompts or in another order, is another state."""

    def asked(*order: str) -> RunData:
        run = make_run("run", configs=("none", "ngram-cache"), prompts=order)
        starts: dict[tuple[str, int, str], int] = {}
        return replace(
            run,
            records=tuple(
                replace(
                    r,
                    server=Server(
                        serial=starts.setdefault((r.cell.config, r.cell.block, r.cell.pass_), len(starts)),
                        answered=order.index(r.cell.prompt),
                    ),
                )
                for r in run.records
            ),
        )

    before = asked("p", "q", "r")
    for new, left_out in ((("p", "q", "r"), 0), (("x", "q", "r"), 6), (("q", "p", "r"), 9), (("p", "q"), 0)):
        config = only(compare(before, asked(*new), stateful=STATEFUL_TYPES)).configs[1]
        assert (config.config, config.another_state) == ("ngram-cache", left_out), new

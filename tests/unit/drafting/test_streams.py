"""Recorded requests become what each server answered, in order, and what is not known of them is said."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_ngram.drafting.streams import Served, served
from pytest_ngram.record import (
    Cell,
    Model,
    Outcome,
    Prompt,
    Record,
    Round,
    Server,
    ServerStart,
    Status,
    WarmUp,
    pack_tokens,
)

PROMPTS = [
    Prompt(model="m", prompt_set="s", prompt=prompt, tokens=pack_tokens(tokens))
    for prompt, tokens in (("p", [1, 2, 3]), ("q", [4]))
]


def round_of(tokens: list[int] | None, stop: str = "limit", **more: Any) -> Round:
    known: dict[str, Any] = dict.fromkeys(Round.__struct_fields__)
    known |= {"status": "ok", "seed": 1, "accepted_per_pos": (), "stop": stop}
    known["tokens"] = None if tokens is None else pack_tokens(tokens)
    known["predicted_n"] = None if tokens is None else len(tokens)
    return Round(**{**known, **more})


def record_of(
    prompt: str, *rounds: Round, serial: int = 1, answered: int = 0, status: Status = "ok", **more: Any
) -> Record:
    cell = Cell(
        model="m",
        config="c",
        prompt=prompt,
        prompt_set="s",
        temperature=0.0,
        block=1,
        pass_="first",
        position=1,
    )
    known: dict[str, Any] = dict.fromkeys(("model", "engine", "memory", "host", "table"))
    known |= {"server": Server(serial=serial, answered=answered), "outcome": Outcome(status=status)}
    return Record(cell=cell, rounds=rounds, **{**known, **more})


def start_of(serial: int, warmup: WarmUp | None) -> ServerStart:
    return ServerStart(
        serial=serial,
        model="m",
        config="c",
        temperature=0.0,
        block=1,
        pass_="first",
        load_s=1,
        warmup_s=1,
        warmup=warmup,
    )


def only(*records: Record, starts: list[ServerStart] | None = None) -> Served:
    (found,) = served(records, starts or [], PROMPTS)
    return found


def test_requests_come_in_the_order_in_which_they_were_answered() -> None:
    """By `answered` of each server, whatever the order in the file; servers go by their serial."""
    later = record_of("q", round_of([8]), answered=1)
    first = record_of("p", round_of([7, 6]))
    other = record_of("p", round_of([5]), serial=2)
    found = served([other, later, first], [], PROMPTS)
    assert [[list(map(int, r.tokens)) for r in each.requests()] for each in found] == [
        [[1, 2, 3, 7, 6], [4, 8]],
        [[1, 2, 3, 5]],
    ]
    assert (found[0].longest, found[0].total) == (5, 7)
    assert [each.id for each in found[0].asked] == ["m/c/p/t0/b1", "m/c/q/t0/b1"]
    assert found[0].unsure_from is None


def test_the_warm_up_is_the_first_request() -> None:
    """What a server was warmed up with stands before all others; older records do not have it."""
    warmup = WarmUp(prompt=pack_tokens([9, 9]), tokens=pack_tokens([8]), n_predict=16, stop="eos")
    found = only(record_of("p", round_of([7])), starts=[start_of(1, warmup)])
    assert [list(map(int, each.tokens)) for each in found.requests()] == [[9, 9, 8], [1, 2, 3, 7]]
    assert found.warmup is not None
    assert (found.warmup.prompt, found.warmup.budget, found.warmup.ended) == (2, 16, True)
    assert only(record_of("p", round_of([7])), starts=[start_of(1, None)]).warmup is None


def test_what_lies_between_requests_makes_the_rest_unsure() -> None:
    """A request that is missing, and one that failed, were seen by the server: what follows is not known."""
    assert only(record_of("p", round_of([7])), record_of("q", round_of([8]), answered=2)).unsure_from == 1
    failed = record_of("p", round_of([7]), status="hang")
    assert only(failed, record_of("q", round_of([8]), answered=1)).unsure_from == 1
    assert (
        only(
            record_of("p", round_of([7]), status="inert"), record_of("q", round_of([8]), answered=1)
        ).unsure_from
        is None
    )


def test_several_rounds_of_a_cell_are_requests_of_their_own() -> None:
    """Each has a number in its name."""
    found = only(record_of("p", round_of([7]), round_of([8])))
    assert [each.id for each in found.asked] == ["m/c/p/t0/b1#1", "m/c/p/t0/b1#2"]


def test_ids_that_are_not_there_are_said_to_lack() -> None:
    """A redacted answer and a prompt without ids have no request."""
    for record in (record_of("p", round_of(None)), record_of("unknown", round_of([7]))):
        (asked,) = only(record).asked
        assert asked.request is None
        assert asked.lacks == "its token ids are not in the file"


def test_how_many_tokens_were_asked_for() -> None:
    """As recorded; in older records an answer that met its limit tells it for all of the model.

    An answer that ended by itself, with nothing to tell the limit, cannot be replayed: how far a draft is cut
    depends on it.
    """

    def budget(*records: Record) -> int | None:
        request = only(*records).asked[0].request
        return None if request is None else request.budget

    ended = record_of("p", round_of([7, 6], "eos"))
    assert budget(record_of("p", round_of([7, 6], "eos", n_predict=64))) == 64
    assert budget(record_of("p", round_of([7, 6]))) == 2
    assert budget(ended) is None
    assert only(ended).asked[0].lacks == "how many tokens were asked for is not recorded"
    assert budget(ended, record_of("q", round_of([1, 2, 3, 4]), answered=1)) == 4


def test_whether_a_rejection_restores_a_checkpoint() -> None:
    """As the model's layers say; of older records by their counts; unknown where nothing was rejected."""
    fields = {"name": "m", "sha256": "", "arch": "a", "size_bytes": 1, "vocab_sha256": "", "n_layer": 2}
    model = Model(**fields, n_expert=None, nextn=0, recurrent_layers=1)
    drafted = {"drafted": 4, "accepted": 2}
    assert only(record_of("p", round_of([7]), model=model)).restores is True
    assert (
        only(record_of("p", round_of([7]), model=msgspec.structs.replace(model, recurrent_layers=0))).restores
        is False
    )
    assert only(record_of("p", round_of([7], replays=1, **drafted))).restores is True
    assert only(record_of("p", round_of([7], replays=0, **drafted))).restores is False
    assert only(record_of("p", round_of([7], replays=0, drafted=4, accepted=4))).restores is None

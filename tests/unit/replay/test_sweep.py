"""A sweep in several processes is that in one, and Ctrl-C ends all of them without a word of theirs."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from pytest_ngram.drafting.grid import settings
from pytest_ngram.drafting.policy import parse
from pytest_ngram.drafting.slot import Request
from pytest_ngram.drafting.tally import pooled
from pytest_ngram.replay import results
from pytest_ngram.replay.sweep import Result, Stream, Tried, run, run_with_luck, sweep


def stream_of(name: str, seed: int) -> Stream:
    """Requests with much repetition; their warm-up comes before them."""
    rng = np.random.default_rng(seed)

    def request() -> Request:
        tokens = np.tile(rng.integers(0, 6, 30), 4)
        return Request(tokens, 40, 80, ended=False)

    return Stream(name, request(), tuple((f"p{i}", request()) for i in range(3)), restores=True)


STREAMS = (stream_of("m/t0", 1), stream_of("m/t0.7", 2))


def shown(found: list[Result]) -> list[tuple[str, str, object]]:
    return [(str(each.policy), each.stream, each.by_prompt) for each in found]


def test_several_processes_find_the_same() -> None:
    """Results come by policy, then by stream, and every task is told once, as in one process."""
    wanted = settings(parse("ngram-mod+ngram-simple"), {"n_match": (2, 3), "n_min": (1,), "size_n": (2, 4)})
    told: list[tuple[int, int]] = []
    many = sweep(wanted, STREAMS, jobs=2, on_done=lambda done, total: told.append((done, total)))
    assert shown(many) == shown(sweep(wanted, STREAMS, jobs=1))
    assert [(each.policy, each.stream) for each in many] == [(p, s.name) for p in wanted for s in STREAMS]
    assert told == [(n, 8) for n in range(1, 9)]
    assert sum(pooled(each.of()).drafted for each in many) > 0


def test_luck_is_told_where_there_were_ties_alone() -> None:
    """With ties a row has what the worst and best luck accept; without any it has neither."""
    tied = run_with_luck(Tried(parse("ngram-cache:n_draft=1")), STREAMS[0])
    assert sum(each.ties for each in tied.of()) > 0
    assert tied.accepted_by_luck is not None
    worst, best = tied.accepted_by_luck
    assert worst <= pooled(tied.of()).accepted <= best
    assert run_with_luck(Tried(parse("ngram-simple:size_n=2,size_m=2")), STREAMS[0]).accepted_by_luck is None


def test_files_say_what_the_rows_do() -> None:
    """JSON and CSV have a row for all prompts and one for each; what is unknown is null, and empty."""
    rows = results.rows([run(parse("ngram-simple:size_n=500"), STREAMS[0])], lambda result: None)
    told = json.loads(results.to_json(rows, {"run": "r.json"}))
    lines = list(csv.DictReader(io.StringIO(results.to_csv(rows).decode())))
    assert (told["schema"], told["run"], len(told["rows"]), len(lines)) == (1, "r.json", 4, 4)
    assert [row["prompt"] for row in told["rows"]] == [None, "p0", "p1", "p2"]
    assert (told["rows"][0]["acceptance"], told["rows"][0]["tg"]) == (None, None)
    assert (lines[0]["acceptance"], lines[0]["tg"], lines[0]["drafted"]) == ("", "", "0")
    assert list(told["rows"][0]) == list(lines[0])


def test_what_faults_cost_stands_below_the_mended_policy() -> None:
    """The difference of accepted tokens, and tokens per step of both; nothing where only one is replayed."""
    built = run(parse("ngram-simple:size_n=4,size_m=9"), STREAMS[0])
    mended = run(parse("ngram-simple:size_n=4,size_m=9@documented"), STREAMS[0])
    lost = pooled(mended.of()).accepted - pooled(built.of()).accepted
    both = results.lines(results.rows([built, mended], lambda result: None), per_prompt=False)
    (line,) = [each for each in both if "the faults cost" in each]
    assert f"{lost} accepted tokens" in line
    assert f"{pooled(built.of()).tokens_per_step:.2f} tokens per step" in line
    alone = results.lines(results.rows([mended], lambda result: None), per_prompt=True)
    assert not any("the faults cost" in each for each in alone)


ENDLESS = """
from pytest_ngram.drafting.grid import settings
from pytest_ngram.drafting.policy import parse
from pytest_ngram.drafting.slot import Request
from pytest_ngram.replay.sweep import Stream, sweep
import numpy as np

def show(done, total):
    print(done, flush=True)

if __name__ == "__main__":
    tokens = np.tile(np.arange(500), 20)
    stream = Stream("m/t0", None, (("p", Request(tokens, 500, 9500, False)),), False)
    wanted = settings(parse("ngram-simple"), {"size_n": range(1, 1001), "size_m": range(1, 100)})
    print("begins", flush=True)
    try:
        sweep(wanted, [stream], jobs=2, on_done=show)
    except KeyboardInterrupt:
        print("stopped")
"""


def test_ctrl_c_ends_a_sweep_quietly(tmp_path: Path) -> None:
    """As from a terminal all processes of the group get it; only the first one speaks, and none is left."""
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begins\n"
        assert running.stdout.readline() == "1\n"
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0
    assert out.splitlines()[-1] == "stopped"
    assert err == ""

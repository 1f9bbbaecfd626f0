"""What the step trace is worth on this host, as figures of one run: sums, overhead, prediction.

* sums: draft + verify + replay + plain of each request against the server's generation time, within 2 %
* overhead: the same requests in turn on a server with the trace and on one without; a line takes at most 1 %
  of a step of the deep model
* prediction: on the deep hand-built model the speed-up of mtp1 to mtp3 by curve × acceptance, within 5 % of
  the measured one. The curve comes from servers of its own, on which every draft is refused.

For the prediction, time in which a server could have run and had no core is taken off, and requests that
waited so for more than a fifth of their time are left out: the servers have one thread of computing each.

All servers of a part run side by side and are asked in turn, one request each, so that what else the host
does falls on all alike; a figure is the median over the rounds of what was compared within a round.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

from msgspec import structs

from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import choose
from pytest_ngram.matrix.plan import Start
from pytest_ngram.matrix.spec import ConfigSpec
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.servers import Servers
from pytest_ngram.measure.sources import read_matrix, read_prompt_sets
from pytest_ngram.options.settings import cache_folder
from pytest_ngram.record import Round
from pytest_ngram.verdict.curve import Drafted, Series, Timed, curve, predicted, timed
from pytest_ngram.verdict.summary import seconds_per_token

ROOT = Path(__file__).parent.parent
MATRIX = ROOT / "bench" / "matrix.yaml"
SUM_GOAL, OVERHEAD_GOAL, PREDICTION_GOAL = 0.02, 0.01, 0.05
LEAST_RUN = 0.8  # of the time in which a server could run
STARTS = 4
CURVE_STEPS = 48  # in a request of a server of the curve
MTP = (1, 2, 3)
BASELINE = "none"


def main() -> int:
    """Print every figure; the exit code is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="through all servers (default: 12)")
    parser.add_argument("--llama-server", help="a binary (default: the embedded engine)")
    parts = {"sums": sums, "overhead": overhead, "prediction": prediction}
    parser.add_argument("--parts", default=",".join(parts), help="of them (default: %(default)s)")
    arguments = parser.parse_args()
    met = [parts[part](arguments.llama_server, arguments.rounds) for part in arguments.parts.split(",")]
    print("all met" if all(met) else f"{met.count(False)} of {len(met)} MISSED")
    return 0 if all(met) else 1


def sums(engine: str | None, rounds: int) -> bool:
    """Print, for each model and config, how far the steps' sum is off the server's generation time."""
    met = True
    for model in ("tiny-moe", "deep-moe"):
        configs = ["none", "mtp1", "mtp3", "ngram-simple", "mtp1+ngram-simple"]
        with asked(engine, model, configs) as ask:
            for config in configs:
                found = [one for _ in range(rounds // 4 or 1) for one in ask(config)]
                off = [_rest_of(one) for one in found]
                worst = max(off)
                met &= worst <= SUM_GOAL
                parts = _parts(found)
                told = f"worst of {len(off)} requests off by {worst:.2%}{_missed(worst <= SUM_GOAL)}"
                print(f"sums: {model} {config}: {told}; {parts}")
    return met


def _rest_of(one: Round) -> float:
    cost, seconds = one.telemetry.cost if one.telemetry else None, seconds_per_token(one)
    return float("inf") if cost is None or seconds is None else abs(cost.rest_ms) / (seconds * 1000)


def _parts(found: Sequence[Round]) -> str:
    costs = [one.telemetry.cost for one in found if one.telemetry and one.telemetry.cost]
    kinds = ("draft", "verify", "replay", "plain")
    told = (f"{kind} {fmean(getattr(cost, f'{kind}_ms') for cost in costs):.3f}" for kind in kinds)
    return f"ms per token: {', '.join(told)}" if costs else "no cost"


def overhead(engine: str | None, rounds: int) -> bool:
    """Print what a line of the trace takes, and what that is of a step of the deep model.

    On the small model a step, and so a line, comes every 0.3 ms: there the price of a line shows best. What a
    line is of the deep model's step of some milliseconds is judged by the upper end of that price; measured
    on it directly, 1 % is lost in what two servers differ by anyway. Servers are started anew a few times.
    """
    pairs = {model: _pairs_of(engine, model, rounds) for model in ("tiny-moe", "deep-moe")}
    for model, own in pairs.items():
        ratios = [pair["ratio"] - 1 for pair in own]
        low, middle, high = quartiles(ratios)
        print(
            f"overhead of the trace: {model} mtp1: generation time {middle:+.2%} ± {_error(ratios):.2%} "
            f"(middle half {low:+.2%} to {high:+.2%}) of {len(own)} pairs"
        )
    prices = [pair["us_per_line"] for pair in pairs["tiny-moe"]]
    most_us = median(prices) + _error(prices)
    step_us = median(pair["us_per_step"] for pair in pairs["deep-moe"])
    met = most_us / step_us <= OVERHEAD_GOAL
    share = f"at most {most_us / step_us:.2%} of a step of deep-moe ({step_us / 1000:.2f} ms)"
    print(
        f"overhead of the trace: a line takes {median(prices):.1f} ± {_error(prices):.1f} µs, {share}, "
        f"goal {OVERHEAD_GOAL:.0%}{_missed(met)}"
    )
    return met


def _error(values: Sequence[float]) -> float:
    """Half of the 95 % interval of a median, from the quartiles."""
    low, _middle, high = quartiles(values)
    return 1.57 * (high - low) / math.sqrt(len(values))


def _pairs_of(engine: str | None, model: str, rounds: int) -> list[dict[str, float]]:
    pairs = []
    for _ in range(STARTS):
        with ExitStack() as stack:
            sides = [Asker(engine, model, ["mtp1"], stack, trace=trace) for trace in (True, False)]
            pairs += [_pair(sides if number % 2 else sides[::-1]) for number in range(rounds)]
    return pairs


def _pair(sides: Sequence[Asker]) -> dict[str, float]:
    """Of the same requests: with the trace ÷ without, and what a line took more."""
    took: dict[bool, float] = {}
    lines = 0
    for side in sides:
        found = side("mtp1")
        lines = sum(one.verify_steps or 0 for one in found)
        took[side.trace] = sum(one.predicted_ms or 0 for one in found)
    return {
        "ratio": took[True] / took[False],
        "us_per_line": (took[True] - took[False]) * 1000 / lines,
        "us_per_step": took[False] * 1000 / lines,
    }


def prediction(engine: str | None, rounds: int) -> bool:
    """Print the predicted and the measured speed-up of MTP on the deep model."""
    names = [BASELINE, *(f"mtp{n}" for n in MTP), *(f"curve{n}" for n in MTP)]
    steps: list[Timed] = []
    drafted: list[Drafted] = []
    speed: dict[str, list[float]] = defaultdict(list)  # seconds per token of each request
    kept: dict[str, list[Round]] = defaultdict(list)
    asked_n = left_n = 0
    with asked(engine, "deep-moe", names) as ask:
        for number in range(rounds):
            took: dict[str, list[float]] = defaultdict(list)
            for name in names[number % 2 :] + names[: number % 2]:
                for one, ran in ask.with_run_share(name):
                    asked_n, left_n = asked_n + 1, left_n + (ran < LEAST_RUN)
                    if ran < LEAST_RUN:
                        continue
                    kept[name].append(one)
                    took[name].append((seconds_per_token(one) or 0.0) * ran)
                    if not name.startswith("mtp"):
                        more = timed(one, 0, baseline=name == BASELINE)
                        steps += [replace(step, ms=step.ms * ran) for step in more[0] if _full(name, step)]
                        drafted += [replace(each, ms=each.ms * ran) for each in more[1]]
            for name, seconds in took.items():
                speed[name] += seconds
    print(f"prediction: {left_n} of {asked_n} requests waited too long for a core and are left out")
    found_curve = curve(steps, drafted)
    series = found_curve.series.get("draft-mtp") if found_curve is not None else None
    if series is None:
        print("prediction: the curve has no step of draft-mtp: MISSED")
        return False
    print("curve: " + ", ".join(f"T({p.tokens})/T(1) {p.ratio:.2f}" for p in series.points), end="; ")
    prices = ", ".join(f"{p.draft_ratio or 0:.3f}" for p in series.points)
    print(f"drafting a token costs {prices}")
    met = [
        _predicted(name, series, kept[name], (speed[BASELINE], speed[name]))
        for name in names
        if name.startswith("mtp")
    ]
    return all(met)


def _full(name: str, step: Timed) -> bool:
    """The last drafts of a request are cut short, so each is a width that the decode before did not have."""
    return name == BASELINE or step.tokens == int(name.removeprefix("curve")) + 1


def _predicted(
    name: str, series: Series, rounds: Sequence[Round], took: tuple[Sequence[float], Sequence[float]]
) -> bool:
    verify: Counter[int] = Counter()
    for one in rounds:
        for width, time in ((one.telemetry and one.telemetry.step_ms_by_width) or {}).items():
            verify[int(width)] += time.n
    plain_n = verify.pop(1, 0)
    foreseen = predicted(series, verify, plain_n, sum((one.predicted_n or 1) - 1 for one in rounds))
    if not all(took):
        print(f"prediction: {name}: every request waited too long for a core: MISSED")
        return False
    (low_none, none, high_none), (low, own, high) = map(quartiles, took)
    measured = none / own
    off = float("inf") if foreseen is None else foreseen / measured - 1
    met = abs(off) <= PREDICTION_GOAL
    rate = sum(one.accepted or 0 for one in rounds) / sum(one.drafted or 1 for one in rounds)
    spread = f"middle half of none {low_none / none:.0%} to {high_none / none:.0%}"
    spread += f", of {name} {low / own:.0%} to {high / own:.0%}"
    told = f"measured {measured:.3f} ({spread}, {len(took[1])} requests)"
    print(
        f"prediction: {name}: acceptance {rate:.3f}, foreseen {foreseen or 0:.3f}, {told}, "
        f"off by {off:+.1%}, goal {PREDICTION_GOAL:.0%}{_missed(met)}"
    )
    return met


class Asker:
    """Servers of some configs, side by side; called with a config, it sends that one all of its requests."""

    def __init__(
        self, engine: str | None, model: str, configs: Sequence[str], stack: ExitStack, *, trace: bool = True
    ) -> None:
        matrix, _ = read_matrix(MATRIX)
        of_curve = {
            f"curve{n}": ConfigSpec(types=("draft-mtp",), flags=f"--spec-draft-n-max {n} --spec-synth-len 1")
            for n in MTP
        }
        self._matrix = structs.replace(matrix, configs={**matrix.configs, **of_curve})
        prompts = read_prompt_sets(matrix, MATRIX.parent)["instrument"].prompts
        self._texts = [prompt.messages[0].content for prompt in prompts]
        self._n_predict = matrix.models[model].n_predict or 96
        self.trace = trace
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cache = cache_folder()
        factory = (Factory if trace else Untraced)(choose(engine), cache_dir=cache)
        servers = Servers(self._matrix, Models(self._matrix, MATRIX.parent, cache), factory, logs=logs)
        self._running: dict[str, Server] = {}
        for position, config in enumerate(configs):
            self._running[config] = servers.serve(Start(model, config, 0.0, 1, position), None)
            stack.callback(self._running[config].stop)

    def __call__(self, config: str) -> list[Round]:
        """Return the rounds of a config's requests: one of each prompt."""
        server = self._running[config]
        return [
            measure(server, request, hang_after_s=self._matrix.hang_after_s)
            for request in self._requests(config)
        ]

    def _requests(self, config: str) -> list[CompletionRequest]:
        server = self._running[config]
        tokens = CURVE_STEPS if config.startswith("curve") else self._n_predict
        return [_request(server, text, tokens) for text in self._texts]

    def with_run_share(self, config: str) -> Iterator[tuple[Round, float]]:
        """Yield each round with the share of its time in which the server had a core when it could run."""
        server = self._running[config]
        for request in self._requests(config):
            before = self._computing(config)
            one = measure(server, request, hang_after_s=self._matrix.hang_after_s)
            after = self._computing(config)
            ran, waited = after[0] - before[0], after[1] - before[1]
            yield one, ran / (ran + waited) if ran > 0 else 0.0

    def _computing(self, config: str) -> tuple[float, float]:
        """How long the thread that computes has run, and how long it waited for a core, in seconds."""
        times = Path(f"/proc/{self._running[config].engine.pid}/task").glob("*/schedstat")
        both = max(tuple(map(int, path.read_text().split()[:2])) for path in times)
        return both[0] / 1e9, both[1] / 1e9


@contextmanager
def asked(engine: str | None, model: str, configs: Sequence[str]) -> Iterator[Asker]:
    """Yield servers of some configs, and end them."""
    with ExitStack() as stack:
        yield Asker(engine, model, configs, stack)


class Untraced(Factory):
    """Starts servers without the trace, to compare with."""

    def start(self, *args: object, **options: object) -> object:  # type: ignore[override]
        """Start one as `Factory` does, but for the trace."""
        return super().start(*args, **{**options, "trace": False})  # type: ignore[arg-type]


def _request(server: Server, text: str, n_predict: int) -> CompletionRequest:
    prompt = server.client.tokenize(text, parse_special=False, add_special=True)
    return CompletionRequest(prompt=prompt, n_predict=n_predict, temperature=0.0, seed=1)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    ordered = sorted(values)
    return ordered[len(ordered) // 4], median(ordered), ordered[(3 * len(ordered)) // 4]


def _missed(met: bool) -> str:
    return "" if met else ": MISSED"


if __name__ == "__main__":
    sys.exit(main())

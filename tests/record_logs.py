"""Records what a build's log says of a few requests, trimmed, with its counts beside: `fixtures/logs`.

    python tests/record_logs.py NAME [--llama-server BINARY]

Run it with the Python that has the build's xllamacpp, or name a llama-server binary. It writes
`NAME-<config>.log` with the lines that are read and a few of their neighbours, and `NAME-<config>.json` with
what `timings` and `/metrics` said of the same requests.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from pytest_ngram.engine import binary, process
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.prometheus import added
from pytest_ngram.errors import EngineError
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

LOGS = Path(__file__).parent.parent / "fixtures" / "logs"
KEPT = re.compile(
    r"processing task|new prompt|cached n_tokens|draft tokens|print_timing|statistics +[a-z]|stop processing"
)
CONFIGS = {
    "none": ("", ""),
    "mtp3": ("draft-mtp", "--spec-draft-n-max 3"),
    "ngram-simple": ("ngram-simple", "--spec-ngram-simple-size-n 1 --spec-ngram-simple-size-m 12"),
    "stack": (
        "draft-mtp,ngram-simple",
        "--spec-draft-n-max 3 --spec-ngram-simple-size-n 1 --spec-ngram-simple-size-m 12",
    ),
}
PROMPTS = ("the model token cache", "def return ( ) : import")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", help="of the build, such as b11549")
    parser.add_argument("--llama-server", type=Path, help="a binary; left out, the embedded engine")
    arguments = parser.parse_args()
    LOGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        model = generate(HandBuiltSpec(target=0.7), Path(folder))
        for config in CONFIGS:
            lines, run = recorded(model, config, arguments.llama_server, Path(folder) / "server.log")
            path = LOGS / f"{arguments.name}-{config}"
            path.with_suffix(".log").write_text("".join(lines), encoding="utf-8")
            path.with_suffix(".json").write_text(json.dumps({"requests": run}, indent=1) + "\n")


def recorded(
    model: Path, config: str, program: Path | None, log_path: Path
) -> tuple[list[str], list[dict[str, Any]]]:
    types, flags = CONFIGS[config]
    argv = server_argv(
        model,
        model_flags=["-t", "1"],
        spec_types=types.split(",") if types else [],
        config_flags=flags.split(),
    )
    if program is not None:
        cache_dir = model.parent
        server: Any = binary.start(argv, program=program, log_path=log_path, cache_dir=cache_dir, trace=True)
    else:
        server = process.start(argv, log_path=log_path, trace=True)
    run = []
    with server, Client(server.url) as client:
        for prompt in PROMPTS:
            ids = client.tokenize(prompt, parse_special=False, add_special=True)
            before = metrics(client)
            request = CompletionRequest(prompt=ids, n_predict=80, temperature=0.0, seed=1)
            begin_s = time.monotonic()
            timings = client.completion(request).timings
            wall_s = time.monotonic() - begin_s
            timing = {name: getattr(timings, name) for name in timings.__struct_fields__}
            run.append({"timings": timing, "metrics": added(before, metrics(client)), "wall_s": wall_s})
            time.sleep(0.3)
    kept = [line for line in log_path.read_text().splitlines(keepends=True) if KEPT.search(line)]
    return [line for line in kept if "tokenize" not in line], run


def metrics(client: Client) -> dict[str, float]:
    try:
        return {name: n for name, n in client.metrics().items() if "spec" in name or "n_decode" in name}
    except EngineError:  # older builds have none
        return {}


if __name__ == "__main__":
    main()

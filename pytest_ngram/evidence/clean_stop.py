"""One request on a server that then ends by itself, with all that it does on the way out.

Elsewhere the embedded engine is ended at once, since it holds nothing worth saving; here just that is asked.
`python -m pytest_ngram.evidence.clean_stop <llama-server flags>` reads a text from standard input, answers it
by the embedded engine, lets go of the server, and prints how many tokens were drafted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_ngram.engine import process
from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.errors import EngineError

_COMMAND = (sys.executable, "-P", "-m", "pytest_ngram.evidence.clean_stop")
_PACKAGE_ROOT = Path(__file__).parent.parent.parent
_N_PREDICT = 96
_TIMEOUT_S = 120.0


def serve_once(factory: Factory, argv: Sequence[str], log_path: Path, text: str) -> int:
    """Start a server, ask it once, and let it end cleanly. Returns the number of drafted tokens.

    Raises:
        EngineError: it did not start, answer, or end well.
    """
    if factory.choice.kind == "embedded":
        return _embedded(argv, log_path, text)
    engine = factory.start(argv, log_path=log_path, trace=False)
    try:
        return _ask(engine.url, text)
    finally:
        engine.stop()


def _embedded(argv: Sequence[str], log_path: Path, text: str) -> int:
    environment = process.clean_environment(trace=False)
    # the child imports what this process did: its own source tree, or the same installation by itself
    own = [] if _PACKAGE_ROOT.name == "site-packages" else [str(_PACKAGE_ROOT)]
    path = [*own, *filter(None, [environment.get("PYTHONPATH")])]
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("wb") as log:
        done = subprocess.run(
            [*_COMMAND, *argv],
            input=text.encode(),
            env=environment | {"PYTHONPATH": os.pathsep.join(path)},
            stdout=subprocess.PIPE,
            stderr=log,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0 or not done.stdout.strip().isdigit():
        raise EngineError(
            "the embedded engine did not answer one request and end cleanly",
            outcome="crash",
            checked=[f"exit code {done.returncode}", f"log: {log_path}"],
            fix="read the log",
        )
    return int(done.stdout)


def _ask(url: str, text: str) -> int:
    with Client(url) as client:
        prompt = client.apply_template([{"role": "user", "content": text}])
        ids = client.tokenize(prompt, parse_special=True, add_special=True)
        request = CompletionRequest(prompt=ids, n_predict=_N_PREDICT, temperature=0.0, seed=1)
        return client.completion(request, timeout_s=_TIMEOUT_S).timings.draft_n or 0


def main(argv: Sequence[str]) -> int:
    """Answer one request by the embedded engine and end cleanly."""
    import xllamacpp

    from pytest_ngram.engine.embedded import common_params
    from pytest_ngram.engine.flags import parse

    server = xllamacpp.Server(common_params(parse(argv), xllamacpp))
    drafted = _ask(server.listening_address, sys.stdin.read())
    del server
    sys.stdout.write(f"{drafted}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

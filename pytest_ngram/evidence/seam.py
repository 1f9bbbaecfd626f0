"""Looks at the running build: what it offers, what one drafted answer shows, how it takes wrong tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import gguf
import httpx
import msgspec

from pytest_ngram.engine import capabilities, code_files, command, elf
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.errors import EngineError
from pytest_ngram.evidence import graph
from pytest_ngram.evidence.reproductions import PAST, PHRASES
from pytest_ngram.evidence.servers import GateServers
from pytest_ngram.evidence.store import EvidenceStore
from pytest_ngram.evidence.wrong_tables import wrong_tables
from pytest_ngram.judge.seam import Place, Report, Tensors
from pytest_ngram.measure.models import Model, open_model
from pytest_ngram.models.gguf_header import read_header
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

_TIMEOUT_S = 60.0
_READY_S = 60.0


class Seam:
    """One look at the build per session.

    Args:
        servers: starts fresh servers of it.
        store: keeps the report.
        cache: where the hand-built model is kept.
        scratch: a folder of this session's own.
        symbols: names to look for in the build's libraries.
    """

    def __init__(
        self,
        servers: GateServers,
        store: EvidenceStore,
        *,
        cache: Path,
        scratch: Path,
        symbols: Sequence[str],
    ) -> None:
        self._servers = servers
        self._store = store
        self._cache = cache
        self._scratch = scratch
        self._symbols = symbols

    def report(self) -> Report:
        """Return what the build has. Raises `NgramError` where it cannot even answer one request."""
        return self._store.once("seam/report", Report, self._look)

    def tensors(self, model_name: str) -> Tensors:
        """Return what a model's files say of its tensors, all shards together."""
        facts = self._servers.models.open(model_name).facts
        names = [tensor.name for shard in facts.shards for tensor in read_header(shard).tensors]
        return Tensors(facts.arch, tuple(names), facts.n_layer, facts.n_expert, facts.nextn)

    def places(self, model_name: str) -> list[tuple[tuple[Place, ...], int]]:
        """Return of each shard where its tensors lie, by our reader and by gguf's, and its size in bytes."""
        return [_places(shard) for shard in self._servers.models.open(model_name).facts.shards]

    def _look(self) -> Report:
        build = self._servers.factory.build
        model = open_model(generate(HandBuiltSpec(target=0.7), self._cache / "models"), self._cache)
        timeout_s = min(_TIMEOUT_S, self._servers.matrix.hang_after_s)
        # of what a build has, one that drafts here: else what only drafts show would not be looked for
        drafting = "draft-mtp" if "draft-mtp" in build.spec_types else "ngram-simple"
        engine = self._start(model, (drafting,), None, "seam", PAST[drafting])
        try:
            with Client(engine.url) as client:
                lines = capabilities.probe_server(client, engine.log_path, timeout_s=timeout_s, text=PHRASES)
                metrics = sorted({name.partition("{")[0] for name in client.metrics()})
            timings = _timings(engine.url, timeout_s)
            symbols = self._find_symbols(engine)
            about = msgspec.structs.replace(engine.describe(), argv=())  # of this look's own server
        finally:
            engine.stop()
        nodes, graph_problem = self._graph(model)
        return Report(
            build=build.name,
            version=build.version,
            flags=tuple(sorted({name for flag in build.flags if not flag.removed for name in flag.names})),
            spec_types=tuple(sorted(build.spec_types)),
            metrics=tuple(metrics),
            timings=timings,
            lines=lines,
            tables=self._tables(model),
            graph=nodes,
            graph_problem=graph_problem,
            symbols=symbols,
            engine=about,
        )

    def _start(
        self, model: Model, types: Sequence[str], table: Path | None, name: str, flags: Sequence[str] = ()
    ) -> RunningEngine:
        """Start a server past the checks that would keep a wrong table from it."""
        argv = command.server_argv(
            model.path,
            model_flags=["-t", "1"],
            spec_types=types,
            config_flags=flags,
            table_path=table,
            vocabulary=self._servers.factory.vocabulary,
        )
        return self._servers.factory.start(
            argv,
            facts=model.facts,
            log_path=self._servers.log_path(name),
            ready_timeout_s=_READY_S,
            trace=True,
        )

    def _tables(self, model: Model) -> dict[str, str]:
        self._scratch.mkdir(parents=True, exist_ok=True)
        found = {}
        for kind, content in wrong_tables(model.facts.n_vocab).items():
            path = self._scratch / f"{kind}.lcs"
            if content is not None:
                path.write_bytes(content)
            found[kind] = self._reaction(model, path, kind)
        return found

    def _reaction(self, model: Model, table: Path, kind: str) -> str:
        try:
            self._start(model, ("ngram-cache",), table, f"table-{kind}").stop()
        except EngineError as error:
            if any("SIGABRT" in line for line in error.checked):
                return "aborts"
            return {"crash": "crashes", "refused": "refuses"}.get(error.outcome, error.outcome)
        return "loads"

    def _graph(self, model: Model) -> tuple[tuple[str, ...] | None, str | None]:
        """Return the nodes, or why the build's program could not show them; neither where it has none."""
        program = self._servers.factory.choice.path
        callback = program.parent / graph.EVAL_CALLBACK if program is not None else None
        if program is None or callback is None or not callback.is_file():
            return None, None
        environment = capabilities.asking_environment(program, self._cache)
        try:
            return graph.nodes(callback, model.path, environment, timeout_s=_TIMEOUT_S), None
        except EngineError as error:
            return None, str(error)

    def _find_symbols(self, engine: RunningEngine) -> dict[str, bool]:
        """Look into every file of llama.cpp's code that the running server has mapped."""
        if not self._symbols or engine.pid is None:
            return dict.fromkeys(self._symbols, False)
        files = _code(engine.pid)
        known = frozenset[str]().union(*(elf.defined(path) for path in files))
        return {name: name in known for name in self._symbols}


def _code(pid: int) -> list[Path]:
    """The libraries of a build by their usual names, and the embedded engine's one."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise EngineError(
            "the libraries of the server cannot be looked up",
            outcome="crash",
            checked=[f"/proc/{pid}/maps: {error.strerror}"],
            fix="read the server's log, in the session's folder under .ngram/gates",
        ) from error
    mapped = {Path(line.split(maxsplit=5)[5]) for line in maps if line.count("/") > 1}
    named = [path for path in mapped if re.search(r"llama|ggml|mtmd", path.name) and path.is_file()]
    return sorted({*named, *code_files.of_process(pid, Path(f"/proc/{pid}/exe").resolve())})


def _timings(url: str, timeout_s: float) -> tuple[str, ...]:
    """Return the keys of `timings` as they stand in the answer, after something was drafted.

    Raises:
        EngineError: there is no answer, or none that can be read.
    """
    body = {"prompt": PHRASES, "n_predict": capabilities.PROBE_TOKENS, "temperature": 0.0}
    try:
        with httpx.Client(base_url=url, timeout=timeout_s, trust_env=False) as http:
            answer = http.post("/completion", json=body).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise EngineError(
            "the server does not answer a second request",
            outcome="hang" if isinstance(error, httpx.TimeoutException) else "refused",
            checked=[f"POST {url}/completion: {error!r}"],
            fix="read the server's log, in the session's folder under .ngram/gates",
        ) from error
    return tuple(sorted(answer.get("timings", {})))


def _places(shard: Path) -> tuple[tuple[Place, ...], int]:
    header = read_header(shard)
    try:
        others = {tensor.name: int(tensor.data_offset) for tensor in gguf.GGUFReader(shard).tensors}
    except ValueError:  # a type that gguf does not know
        others = {}
    places = tuple(
        Place(tensor.name, header.data_start + tensor.offset, tensor.n_bytes, others.get(tensor.name))
        for tensor in header.tensors
    )
    return places, header.size_bytes

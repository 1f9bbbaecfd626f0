"""The gates of a small matrix on the real engine, with or without a fault between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_proxy import FAULTS, Fault, FaultyFactory

from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.select import EngineChoice
from pytest_ngram.evidence.room import GateRoom, Places
from pytest_ngram.evidence.servers import GateServers
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.servers import Servers
from pytest_ngram.measure.setup import read_setup
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

ISSUES = Path(__file__).parents[2] / "gates" / "known_issues.yaml"
MATRIX = """
version: 1
warmup: "the model"
hang_after_s: 5
models:
  tiny: {generate: {target: 0.7}, flags: -c 4096 -t 1}
  plain: {path: PATH, flags: -c 4096 -t 1}    # the same file, of which nothing is known
configs:
  none: {}
  mtp1: {types: [draft-mtp], flags: --spec-draft-n-max 1}
  own: {types: [draft-mtp], flags: --spec-draft-n-max 2, identity: self}
prompt_sets:
  words: {path: words.yaml}
gates: {n_predict: 64}
profiles:
  smoke: {blocks: 1, n_predict: 48}
"""
PROMPTS = """
set: words
system: ""
prompts:
  - {id: word-en, kind: en, messages: [{role: user, content: " model token"}]}
  - {id: word-ru, kind: ru, messages: [{role: user, content: " модель токен"}]}
"""
MakeRoom = Callable[..., GateRoom]


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory, session_cache: Path) -> Path:
    """Goldens of a server without a fault."""
    folder = tmp_path_factory.mktemp("golden")
    room = _room(tmp_path_factory.mktemp("made"), session_cache, folder, None, update=True)
    for case in room.cases("model/prompt"):
        room.gates.prompt(case)
        room.gates.golden(case)
    return folder


@pytest.fixture
def make_room(tmp_path: Path, session_cache: Path, golden_folder: Path) -> MakeRoom:
    """`make_room(fault)`: the gates, with a fault, or one of `FAULTS`, before the servers that it is for."""

    def make(
        fault: str | Fault | None = None,
        *,
        golden: Path = golden_folder,
        update: bool = False,
        edit: Callable[[str], str] = str,
    ) -> GateRoom:
        fault = FAULTS[fault] if isinstance(fault, str) else fault
        return _room(tmp_path, session_cache, golden, fault, update=update, matrix=edit(MATRIX))

    return make


def _room(
    folder: Path, cache: Path, golden: Path, fault: Fault | None, *, update: bool, matrix: str = MATRIX
) -> GateRoom:
    path = generate(HandBuiltSpec(target=0.7), cache / "models")
    (folder / "matrix.yaml").write_text(matrix.replace("PATH", str(path)), encoding="utf-8")
    (folder / "words.yaml").write_text(PROMPTS, encoding="utf-8")
    (folder / "known_issues.yaml").write_text(ISSUES.read_text(encoding="utf-8"), encoding="utf-8")
    setup = read_setup(folder / "matrix.yaml", "smoke")
    models = Models(setup.matrix, setup.base, cache)
    factory: Factory = FaultyFactory(EngineChoice("embedded"), cache_dir=cache)
    assert isinstance(factory, FaultyFactory)
    factory.starts = Counter()
    factory.fault = fault
    servers = Servers(setup.matrix, models, factory, logs=folder / "logs")
    gate_servers = GateServers(
        setup.matrix,
        models,
        factory,
        servers,
        table_of=lambda model, table: Path(),
        logs=folder / "logs",
        load_deadline_s=30,
    )
    places = Places(folder, golden, folder / "session", cache)
    return GateRoom(setup, (), gate_servers, places, update=update, command="pytest gates --gates-update")

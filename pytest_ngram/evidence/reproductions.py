"""Known issues of llama.cpp, reproduced on the hand-built model: small, exact, and ready on every host."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import gguf

from pytest_ngram.engine import command
from pytest_ngram.evidence import clean_stop
from pytest_ngram.evidence.ask import Asker
from pytest_ngram.evidence.servers import GateServers
from pytest_ngram.judge.accounting import N_DECODE
from pytest_ngram.judge.known_issues import Reproduced
from pytest_ngram.judge.types import Answer
from pytest_ngram.measure.models import Model, open_model
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

# One prompt whose text repeats what it says, one whose own text comes round every 96 tokens.
PHRASES = (
    " request finished tokens decoded per second speculative statistics calls drafts generated accepted rate"
    " shown here end"
)
WORDS = " def class self return import"
_ROUND = 96
_END_AT = 5  # inside a draft that each type of `PAST` gets accepted on PHRASES
_SIMPLE = ("--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "16")
_LONG = 64
_REPEATS = 3
_LONG_DRAFTS = ("--spec-draft-n-max", "3")
_HANG_S = 60.0


class Reproductions:
    """Runs reproductions by name.

    Args:
        servers: starts fresh servers of the engine that is judged.
        cache: where the hand-built model is kept, and hashes are.
        scratch: a folder of this session's own.
    """

    def __init__(self, servers: GateServers, cache: Path, scratch: Path) -> None:
        self._servers = servers
        self._cache = cache
        self._scratch = scratch
        self._model: Model | None = None

    def run(self, name: str) -> Reproduced:
        """Run the reproduction of a name. Raises `NgramError` where the engine fails."""
        return _BY_NAME[name][0](self)

    def cache_after_others(self) -> Reproduced:
        """27852: ngram-cache drafts otherwise, or nothing, after another request on the same slot."""
        return self._after_another("ngram-cache", PHRASES, WORDS)

    def map_k_after_others(self) -> Reproduced:
        """The keys of ngram-map-k outlive a request: the next one finds them, its own prompt is not read."""
        return self._after_another("ngram-map-k", PHRASES, WORDS, _of_map("ngram-map-k"))

    def map_k4v_after_others(self) -> Reproduced:
        """The same of ngram-map-k4v."""
        return self._after_another("ngram-map-k4v", PHRASES, WORDS, _of_map("ngram-map-k4v"))

    def mod_pool(self) -> Reproduced:
        """The pool of ngram-mod outlives a request: a second, equal one is drafted from the first."""
        with self._asker(["ngram-mod"], PAST["ngram-mod"]) as asker:
            first, second = (self._drafted(asker, PHRASES, 256) for _ in range(2))
        lines = [f"the same request twice on one server: {first} tokens drafted, then {second}"]
        return _compared(first, second, lines)

    def dynamic_table(self) -> Reproduced:
        """22055: the file of `-lcd` is read and never written."""
        path = self._scratch / "dynamic.lcd"
        self._scratch.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        argv = self._argv(["ngram-cache"], ("-lcd", str(path)), self._handbuilt())
        log_path = self._servers.log_path("dynamic-table")
        drafted = clean_stop.serve_once(self._servers.factory, argv, log_path, PHRASES)
        size_bytes = path.stat().st_size
        lines = [f"after {drafted} drafted tokens and a clean stop the file has {size_bytes} bytes"]
        if not drafted:
            return _cannot_tell(lines, "nothing was drafted, so there was nothing to be learned")
        return Reproduced(size_bytes == 0, tuple(lines))

    def past_the_end(self) -> Reproduced:
        """28049: tokens of a draft count as accepted although the end token stood before them."""
        offered = self._servers.factory.build.spec_types
        asked = [name for name in PAST if not offered or name in offered]
        return _of_types({name: self._past_the_end(name) for name in asked})

    def past_a_stop_word(self) -> Reproduced:
        """The same at a stop word."""
        ids, whole = self._whole("ngram-simple", _LONG)
        with self._asker(["ngram-simple"], _SIMPLE) as asker:
            word = asker.server.client.detokenize(whole.tokens[_END_AT - 1 : _END_AT + 1])
            cut = asker.ask(PHRASES, ids, stop=[word])
        return self._past("ngram-simple", cut, "word")

    def _past_the_end(self, spec_type: str) -> Reproduced:
        ids, whole = self._whole(spec_type, _LONG)
        ending = self._ending_with(whole.tokens[_END_AT])
        with self._asker([spec_type], PAST[spec_type], ending) as asker:
            cut = asker.ask(PHRASES, ids)
        return self._past(spec_type, cut, "eos")

    def _past(self, spec_type: str, cut: Answer, stop: str) -> Reproduced:
        """Whether more was accepted than delivered, once it is sure that a draft went on past the end.

        The first token comes out of the prompt's decode, so at most the others can be accepted ones. A draft
        went on where two tokens more, without the end, take no more decodes: the one after the end was
        drafted.
        """
        delivered, accepted = len(cut.tokens), cut.accepted
        lines = [f"{delivered} tokens delivered, {accepted} counted as accepted"]
        if accepted > delivered - 1:
            return Reproduced(True, tuple(lines))
        _, further = self._whole(spec_type, delivered + 2)
        here, there = _decodes(cut), _decodes(further)
        lines.append(f"{_told(here)} decodes, without the end {_told(there)} for {delivered + 2} tokens")
        if cut.stop != stop:
            return _cannot_tell(lines, f"the text ended by {cut.stop}, not {stop}")
        if here is None or there is None or there > here or not cut.drafted:
            return _cannot_tell(lines, "no draft is seen to go on past the end")
        return Reproduced(False, tuple(lines))

    def _whole(self, spec_type: str, n_predict: int) -> tuple[tuple[int, ...], Answer]:
        """The ids of PHRASES, and what a fresh server of the type makes of them without an early end."""
        with self._asker([spec_type], PAST[spec_type]) as asker:
            ids = self._ids(asker, PHRASES)
            return ids, asker.ask(PHRASES, ids, n_predict=n_predict)

    def fixed_probabilities(self) -> Reproduced:
        """27972: accepted tokens are stated with probability 1 and no alternatives."""
        with self._asker(["ngram-map-k"]) as asker:
            result = asker.complete(self._ids(asker, PHRASES), n_predict=200, n_probs=2)
        accepted = result.timings.draft_n_accepted or 0
        bare = sum(1 for entry in result.completion_probabilities if not entry["top_logprobs"])
        entries = len(result.completion_probabilities)
        lines = [f"{bare} of {entries} entries without alternatives, {accepted} tokens accepted"]
        if not accepted:
            return _cannot_tell(lines, "nothing was accepted, so no entry is of an accepted token")
        if entries != len(result.tokens) or bare == entries:
            return _cannot_tell(
                lines, f"{len(result.tokens)} tokens need an entry each, and some of them alternatives"
            )
        return Reproduced(bare > 0, tuple(lines))

    def single_tokens(self) -> Reproduced:
        """ngram-cache learns nothing of a text that it generates token by token, however often it repeats."""
        n = 4 * _ROUND
        with self._asker(["ngram-cache"]) as asker:
            able = self._drafted(asker, PHRASES, _ROUND)
        with self._asker(["ngram-cache"]) as asker:
            result = asker.complete(self._ids(asker, WORDS), n_predict=n)
        tokens, drafted = result.tokens, result.timings.draft_n or 0
        rounds = sum(tokens[i : i + _ROUND] == tokens[-_ROUND:] for i in range(0, n, _ROUND))
        lines = [
            f"the same {_ROUND} tokens {rounds} times over, {drafted} drafted",
            f"of a text that its prompt holds, {able} drafted",
        ]
        if rounds < _REPEATS:
            return _cannot_tell(lines, "the text does not repeat itself, so there is nothing to be learned")
        if not able:
            return _cannot_tell(
                lines, "it drafts nothing of a prompt either: that it learns nothing is not shown"
            )
        return Reproduced(drafted == 0, tuple(lines))

    def _after_another(
        self, spec_type: str, text: str, other: str, flags: tuple[str, ...] = ()
    ) -> Reproduced:
        with self._asker([spec_type], flags) as asker:
            alone = self._drafted(asker, text, _ROUND)
        with self._asker([spec_type], flags) as asker:
            self._drafted(asker, other, _ROUND)
            after = self._drafted(asker, text, _ROUND)
        return _compared(alone, after, [f"drafted on a fresh server {alone}, after another request {after}"])

    def _drafted(self, asker: Asker, text: str, n_predict: int) -> int:
        return asker.complete(self._ids(asker, text), n_predict=n_predict).timings.draft_n or 0

    @staticmethod
    def _ids(asker: Asker, text: str) -> tuple[int, ...]:
        return asker.render([{"role": "user", "content": text}], [])

    @contextmanager
    def _asker(
        self, types: list[str], flags: tuple[str, ...] = (), model: Model | None = None
    ) -> Iterator[Asker]:
        model = model or self._handbuilt()
        draft = model if "draft-simple" in types else None  # whatever it says is right then
        argv = self._argv(types, flags, model, draft)
        name = f"issue_{'_'.join(types)}"
        server = self._servers.start_argv(model, argv, name, speculative=True, draft=draft)
        try:
            yield Asker(
                server, n_predict=_ROUND, hang_after_s=min(_HANG_S, self._servers.matrix.hang_after_s)
            )
        finally:
            server.stop()

    def _argv(
        self, types: list[str], flags: tuple[str, ...], model: Model, draft: Model | None = None
    ) -> tuple[str, ...]:
        return command.server_argv(
            model.path,
            model_flags=["-t", "1"],
            spec_types=types,
            config_flags=flags,
            draft_model=draft.path if draft is not None else None,
            vocabulary=self._servers.factory.vocabulary,
        )

    def _handbuilt(self) -> Model:
        if self._model is None:
            path = generate(HandBuiltSpec(target=0.7), self._cache / "models")
            self._model = open_model(path, self._cache)
        return self._model

    def _ending_with(self, token: int) -> Model:
        """Return a copy of the model whose end token is a word that it says."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        copy = self._scratch / f"ends-with-{token}.gguf"
        shutil.copyfile(self._handbuilt().path, copy)
        reader = gguf.GGUFReader(copy, "r+")
        reader.fields[gguf.Keys.Tokenizer.EOS_ID].parts[-1][0] = token
        reader.data.flush()
        return open_model(copy, self._cache)


def _compared(one: int, other: int, lines: Sequence[str]) -> Reproduced:
    """Whether two counts of drafted tokens differ; two that are 0 show only that nothing drafts here."""
    if not one and not other:
        return _cannot_tell(lines, "nothing was drafted either time, so nothing could differ")
    return Reproduced(one != other, tuple(lines))


def _cannot_tell(lines: Sequence[str], why: str) -> Reproduced:
    return Reproduced(None, (*lines, f"cannot tell: {why}"))


def _of_types(found: Mapping[str, Reproduced]) -> Reproduced:
    """One that shows it is enough; that it is gone takes all of them."""
    shown = {each.shown for each in found.values()}
    lines = tuple(f"{name}: {line}" for name, each in found.items() for line in each.lines)
    if True in shown:
        return Reproduced(True, lines)
    return Reproduced(False if shown == {False} else None, lines or ("the build offers none of its types",))


def _decodes(answer: Answer) -> int | None:
    """Decodes after the prompt, by the server's own count; None where it has none."""
    counted = (answer.metrics or {}).get(N_DECODE)
    return None if counted is None else int(counted) - answer.prompt_decodes


def _told(count: int | None) -> str:
    return "an unknown number of" if count is None else str(count)


def _of_map(spec_type: str) -> tuple[str, ...]:
    """Keys so short that a text of a hundred tokens repeats some."""
    return (f"--spec-{spec_type}-size-n", "3", f"--spec-{spec_type}-size-m", "8")


# Of the types whose drafts go on past the end on PHRASES, the flags that make them so.
PAST: dict[str, tuple[str, ...]] = {
    "ngram-simple": _SIMPLE,
    "ngram-map-k": _of_map("ngram-map-k"),
    "ngram-map-k4v": _of_map("ngram-map-k4v"),
    "ngram-mod": (
        "--spec-ngram-mod-n-match",
        "3",
        "--spec-ngram-mod-n-min",
        "1",
        "--spec-ngram-mod-n-max",
        "16",
    ),
    "ngram-cache": (),
    "draft-mtp": _LONG_DRAFTS,
    "draft-simple": _LONG_DRAFTS,
}

_BY_NAME: dict[str, tuple[Callable[[Reproductions], Reproduced], Iterable[str]]] = {
    "cache-after-others": (Reproductions.cache_after_others, ["ngram-cache"]),
    "map-k-after-others": (Reproductions.map_k_after_others, ["ngram-map-k"]),
    "map-k4v-after-others": (Reproductions.map_k4v_after_others, ["ngram-map-k4v"]),
    "mod-pool": (Reproductions.mod_pool, ["ngram-mod"]),
    "dynamic-table": (Reproductions.dynamic_table, ["ngram-cache"]),
    "past-the-end": (Reproductions.past_the_end, PAST),
    "past-a-stop-word": (Reproductions.past_a_stop_word, ["ngram-simple"]),
    "fixed-probabilities": (Reproductions.fixed_probabilities, ["ngram-map-k"]),
    "single-tokens": (Reproductions.single_tokens, ["ngram-cache"]),
}
ASKED_TYPES = {name: frozenset(types) for name, (_, types) in _BY_NAME.items()}

"""Known issues of llama.cpp, reproduced on the hand-built model: small, exact, and ready on every host."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf

from pytest_ngram.engine import command
from pytest_ngram.evidence import clean_stop
from pytest_ngram.evidence.ask import Asker
from pytest_ngram.evidence.servers import GateServers
from pytest_ngram.judge.known_issues import Reproduced
from pytest_ngram.measure.models import Model, open_model
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

# One prompt whose text repeats what it says, one whose own text comes round every 96 tokens.
PHRASES = (
    " request finished tokens decoded per second speculative statistics calls drafts generated accepted rate"
    " shown here end"
)
WORDS = " def class self return import"
_ROUND = 96
_EOS_AT = 5  # inside the first draft that ngram-simple gets accepted on PHRASES
_SIMPLE = ("--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "16")
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
        return BY_NAME[name](self)

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
        with self._asker(["ngram-mod"]) as asker:
            first, second = (self._drafted(asker, PHRASES, 256) for _ in range(2))
        lines = (f"the same request twice on one server: {first} tokens drafted, then {second}",)
        return Reproduced(first != second, lines)

    def dynamic_table(self) -> Reproduced:
        """22055: the file of `-lcd` is read and never written."""
        path = self._scratch / "dynamic.lcd"
        self._scratch.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        argv = self._argv(["ngram-cache"], ("-lcd", str(path)), self._handbuilt())
        log_path = self._servers.log_path("dynamic-table")
        drafted = clean_stop.serve_once(self._servers.factory, argv, log_path, PHRASES)
        size_bytes = path.stat().st_size
        lines = (f"after {drafted} drafted tokens and a clean stop the file has {size_bytes} bytes",)
        return Reproduced(None if not drafted else size_bytes == 0, lines)

    def past_the_end(self) -> Reproduced:
        """28049: tokens of a draft count as accepted although the end token stood before them."""
        with self._asker(["ngram-simple"], _SIMPLE) as asker:
            whole = asker.complete(self._ids(asker, PHRASES), n_predict=64).tokens
        ending = self._ending_with(whole[_EOS_AT])
        with self._asker(["ngram-simple"], _SIMPLE, ending) as asker:
            result = asker.complete(self._ids(asker, PHRASES), n_predict=64)
        return _past(result.stop_type == "eos", len(result.tokens), result.timings.draft_n_accepted or 0)

    def past_a_stop_word(self) -> Reproduced:
        """The same at a stop word."""
        with self._asker(["ngram-simple"], _SIMPLE) as asker:
            ids = self._ids(asker, PHRASES)
            whole = asker.complete(ids, n_predict=64)
            word = asker.server.client.detokenize(whole.tokens[_EOS_AT - 1 : _EOS_AT + 1])
            result = asker.complete(ids, n_predict=64, stop=[word])
        return _past(result.stop_type == "word", len(result.tokens), result.timings.draft_n_accepted or 0)

    def fixed_probabilities(self) -> Reproduced:
        """27972: accepted tokens are stated with probability 1 and no alternatives."""
        with self._asker(["ngram-map-k"]) as asker:
            result = asker.complete(self._ids(asker, PHRASES), n_predict=200, n_probs=2)
        accepted = result.timings.draft_n_accepted or 0
        bare = sum(1 for entry in result.completion_probabilities if not entry["top_logprobs"])
        entries = len(result.completion_probabilities)
        lines = (f"{bare} of {entries} entries without alternatives, {accepted} tokens accepted",)
        return Reproduced(bare > 0 if accepted else None, lines)

    def single_tokens(self) -> Reproduced:
        """ngram-cache learns nothing of a text that it generates token by token, however often it repeats."""
        n = 4 * _ROUND
        with self._asker(["ngram-cache"]) as asker:
            result = asker.complete(self._ids(asker, WORDS), n_predict=n)
        tokens, drafted = result.tokens, result.timings.draft_n or 0
        rounds = sum(tokens[i : i + _ROUND] == tokens[-_ROUND:] for i in range(0, n, _ROUND))
        lines = (f"the same {_ROUND} tokens {rounds} times over, {drafted} drafted",)
        return Reproduced(drafted == 0 if rounds >= 3 else None, lines)

    def _after_another(
        self, spec_type: str, text: str, other: str, flags: tuple[str, ...] = ()
    ) -> Reproduced:
        with self._asker([spec_type], flags) as asker:
            alone = self._drafted(asker, text, _ROUND)
        with self._asker([spec_type], flags) as asker:
            self._drafted(asker, other, _ROUND)
            after = self._drafted(asker, text, _ROUND)
        lines = (f"drafted on a fresh server {alone}, after another request {after}",)
        return Reproduced(alone != after, lines)

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
        argv = self._argv(types, flags, model)
        server = self._servers.start_argv(model, argv, f"issue_{'_'.join(types)}", speculative=True)
        try:
            yield Asker(server, n_predict=_ROUND, hang_after_s=_HANG_S)
        finally:
            server.stop()

    def _argv(self, types: list[str], flags: tuple[str, ...], model: Model) -> tuple[str, ...]:
        return command.server_argv(
            model.path,
            model_flags=["-t", "1"],
            spec_types=types,
            config_flags=flags,
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


def _past(ended: bool, delivered: int, accepted: int) -> Reproduced:
    """The first token comes out of the prompt's decode, so at most the others can be accepted ones."""
    lines = (f"{delivered} tokens delivered, {accepted} counted as accepted",)
    return Reproduced(accepted > delivered - 1 if ended and accepted else None, lines)


def _of_map(spec_type: str) -> tuple[str, ...]:
    """Keys so short that a text of a hundred tokens repeats some."""
    return (f"--spec-{spec_type}-size-n", "3", f"--spec-{spec_type}-size-m", "8")


BY_NAME: dict[str, Callable[[Reproductions], Reproduced]] = {
    "cache-after-others": Reproductions.cache_after_others,
    "map-k-after-others": Reproductions.map_k_after_others,
    "map-k4v-after-others": Reproductions.map_k4v_after_others,
    "mod-pool": Reproductions.mod_pool,
    "dynamic-table": Reproductions.dynamic_table,
    "past-the-end": Reproductions.past_the_end,
    "past-a-stop-word": Reproductions.past_a_stop_word,
    "fixed-probabilities": Reproductions.fixed_probabilities,
    "single-tokens": Reproductions.single_tokens,
}

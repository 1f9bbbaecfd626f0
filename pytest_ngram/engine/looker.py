"""Asks a llama-server that runs what it is: model, slots, speculative types, endpoints."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from pytest_ngram.engine.client import Client, CompletionRequest
from pytest_ngram.errors import EngineError

T = TypeVar("T")

_GENERATED = "llamacpp:tokens_predicted_total"
_LOADING = " answered 503"  # ends what the client checked; a port may have these digits, too


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a running server tells of itself; None where it does not.

    Args:
        model_path: as the server was given it, on its own host.
        n_ctx: tokens of one slot's context.
        total_slots: `-np`.
        spec_types: types it drafts with, `none` left out; empty where it does not draft.
        metrics, slots: whether it answers there.
        build: such as `b11434-1a2b3c4`.
        n_vocab: tokens of its vocabulary.
        tensor_bytes: size of the model's weights.
        n_generated: tokens that it had generated for anybody before it was looked at.
    """

    model_path: str = ""
    n_ctx: int | None = None
    total_slots: int | None = None
    spec_types: tuple[str, ...] | None = None
    metrics: bool = False
    slots: bool = False
    build: str | None = None
    n_vocab: int | None = None
    tensor_bytes: int | None = None
    n_generated: float | None = None


class _Settings(msgspec.Struct):
    n_ctx: int | None = None


class _Props(msgspec.Struct):
    total_slots: int | None = None
    model_path: str = ""
    build_info: str | None = None
    default_generation_settings: _Settings = msgspec.field(default_factory=_Settings)


class _Slot(msgspec.Struct):
    n_ctx: int | None = None
    speculative: bool | None = None
    params: dict[str, Any] = {}


class _Meta(msgspec.Struct):
    n_vocab: int | None = None
    size: int | None = None


class _Card(msgspec.Struct):
    meta: _Meta | None = None


class _Cards(msgspec.Struct):
    data: list[_Card] = []


class Looker(Client):
    """Asks what `Client` has no words for."""

    def ready(self) -> bool:
        """Whether the model is loaded.

        Raises:
            EngineError: `refused` where nobody answers, `hang` where no answer comes in time.
        """
        try:
            self._call("GET", "/health")
        except EngineError as error:
            if error.outcome == "refused" and any(item.endswith(_LOADING) for item in error.checked):
                return False
            raise EngineError(
                f"no llama-server answers at {self.url}",
                outcome="hang" if error.outcome == "hang" else "refused",
                checked=[error.cause, *error.checked],
                fix="start it, or correct the address",
            ) from error
        return True

    def look(self) -> Seen:
        """Ask for all that is compared. Raises `EngineError`."""
        props = self._decode(self._call("GET", "/props"), _Props)
        n_generated = self.n_generated()
        slots = self._optional("/slots", list[_Slot]) or []
        if slots and slots[0].speculative is not False and not slots[0].params:
            self._one_token()
            slots = self._optional("/slots", list[_Slot]) or []
        cards = self._optional("/v1/models", _Cards) or _Cards()
        meta = next((card.meta for card in cards.data if card.meta is not None), _Meta())
        n_ctx = slots[0].n_ctx if slots else props.default_generation_settings.n_ctx
        return Seen(
            model_path=props.model_path,
            n_ctx=n_ctx,
            total_slots=props.total_slots,
            spec_types=_types_of(slots[0]) if slots else None,
            metrics=self._answers("/metrics"),
            slots=bool(slots),
            build=None if props.build_info in (None, "", "b0-unknown") else props.build_info,
            n_vocab=meta.n_vocab,
            tensor_bytes=meta.size,
            n_generated=n_generated,
        )

    def n_generated(self) -> float | None:
        """How many tokens it has generated since it was started; None where it does not tell."""
        return self.metrics().get(_GENERATED) if self._answers("/metrics") else None

    def _one_token(self) -> None:
        prompt = self.tokenize("a", parse_special=False, add_special=True)
        request = CompletionRequest(prompt=prompt, n_predict=1, temperature=0.0, seed=1)
        self.completion(request, timeout_s=120.0)

    def _optional(self, path: str, kind: type[T]) -> T | None:
        return self._decode(self._call("GET", path), kind) if self._answers(path) else None

    def _answers(self, path: str) -> bool:
        try:
            self._call("GET", path)
        except EngineError as error:
            if error.outcome == "refused":
                return False
            raise
        return True


def _types_of(slot: _Slot) -> tuple[str, ...] | None:
    """Return the types that a slot drafts with; None where the build does not name them."""
    if slot.speculative is False:
        return ()
    named = slot.params.get("speculative.types")
    if not isinstance(named, str):
        return None
    return tuple(name for name in named.split(",") if name not in ("", "none"))

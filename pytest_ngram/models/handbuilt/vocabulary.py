"""Byte-level BPE vocabulary in which every word of the four classes is one token.

Ids 0 to 255 are the bytes. A word is reached by merging it from its start, unit by unit:
` model` = ` ` + `m` → ` m`, + `o` → ` mo`, … so every prefix of a word is a token too. A Cyrillic letter
is two bytes, merged first, and counts as one unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pytest_ngram.models.handbuilt.words import class_words

# Single tokens, so that the letters of a role name do not count as words of the prompt.
ROLES = ("assistant", "user", "system")
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_DEFINED = ("<think>", "</think>")
_CYRILLIC = frozenset([*map(chr, range(0x410, 0x450)), "Ё", "ё"])


@dataclass(frozen=True)
class Vocabulary:
    """The vocabulary as GGUF stores it.

    Args:
        tokens: one per id, in the byte alphabet of GPT-2 (` ` is written `Ġ`).
        merges: `left right`, in order of priority.
        n_plain: ids below this one are text; the rest are control and user-defined tokens.
    """

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    n_plain: int

    def __len__(self) -> int:
        return len(self.tokens)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that the token stands for; a special token stands for its own name."""
        token = self.tokens[token_id]
        if token_id >= self.n_plain:
            return token.encode()
        return bytes(_byte_of_char()[char] for char in token)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, special tokens left out; broken UTF-8 becomes U+FFFD."""
        raw = b"".join(self.token_bytes(i) for i in ids if i < self.n_plain)
        return raw.decode("utf-8", errors="replace")

    def word_id(self, word: str) -> int:
        """Return the id of a word given as in `class_words`. Raises `KeyError` for any other text."""
        return _ids()[_encode(word)]


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """Build the vocabulary; it is the same for every spec."""
    tokens = [_char_of_byte(byte) for byte in range(256)]
    known = set(tokens)
    merges: list[str] = []
    for left, right in _merge_pairs():
        if left + right not in known:
            known.add(left + right)
            tokens.append(left + right)
            merges.append(f"{left} {right}")
    specials = (*CONTROL, *USER_DEFINED)
    return Vocabulary(tokens=(*tokens, *specials), merges=tuple(merges), n_plain=len(tokens))


def _merge_pairs() -> Iterator[tuple[str, str]]:
    for letter in sorted(_CYRILLIC):
        pair = _encode(letter)
        yield pair[0], pair[1]
    texts = [word for words in class_words().values() for word in words]
    for text in [*texts, *ROLES]:
        units = [unit for char in text for unit in _units(char)]
        prefix = units[0]
        for unit in units[1:]:
            yield prefix, unit
            prefix += unit


def _units(char: str) -> Sequence[str]:
    return [_encode(char)] if char in _CYRILLIC else list(_encode(char))


def _encode(text: str) -> str:
    return "".join(_char_of_byte(byte) for byte in text.encode())


@lru_cache(maxsize=1)
def _byte_alphabet() -> tuple[str, ...]:
    """GPT-2's printable alphabet of the 256 bytes: printable Latin-1 stays, the rest moves to U+0100 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    moved = [byte for byte in range(256) if byte not in printable]
    place = {byte: 256 + index for index, byte in enumerate(moved)}
    return tuple(chr(place.get(byte, byte)) for byte in range(256))


def _char_of_byte(byte: int) -> str:
    return _byte_alphabet()[byte]


@lru_cache(maxsize=1)
def _byte_of_char() -> dict[str, int]:
    return {char: byte for byte, char in enumerate(_byte_alphabet())}


@lru_cache(maxsize=1)
def _ids() -> dict[str, int]:
    vocab = vocabulary()
    return {token: index for index, token in enumerate(vocab.tokens[: vocab.n_plain])}

"""Drafters and the server's loop once more: slow, with lists, dicts and no index, close to what the C++ says.

Nothing here is shared with the package. Every search is a scan, every table a dict of dicts, every bound as
written in llama.cpp; integers are wrapped where C++ has fewer bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

BUCKETS = (1, 13, 29, 59, 127, 257, 541, 1109, 2357)


def int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def walk(keys: list[int]) -> list[int]:
    """The order of libstdc++'s unordered_map, as one list with its buckets' members kept together."""
    order: list[int] = []
    n_buckets = 1

    def put(key: int) -> None:
        for i, other in enumerate(order):
            if other % n_buckets == key % n_buckets:
                order.insert(i, key)
                return
        order.insert(0, key)

    for i, key in enumerate(keys):
        if i + 1 > n_buckets or n_buckets == 1:
            n_buckets = next(b for b in BUCKETS if b > n_buckets and b > i)
            old, order[:] = list(order), []
            for other in old:
                _append_rehashed(order, other, n_buckets)
        put(key)
    return order


def _append_rehashed(order: list[int], key: int, n_buckets: int) -> None:
    """Growing: to the front for a new bucket, before the bucket's members otherwise."""
    for i, other in enumerate(order):
        if other % n_buckets == key % n_buckets:
            order.insert(i, key)
            return
    order.insert(0, key)


class Plain:
    """What a drafter without memory does at the other calls."""

    def begin(self, prompt: list[int]) -> None:
        pass

    def accept(self, n: int) -> None:
        pass


class LookupTwin(Plain):
    def __init__(self, n: int, low: int, high: int) -> None:
        self.n, self.low, self.high = n, low, high

    def draft(self, prompt: list[int], last: int) -> list[int]:
        text = [*prompt, last]
        for size in range(min(self.high, len(text) - 1), self.low - 1, -1):
            for at in range(len(text) - size - 1, -1, -1):
                if text[at : at + size] == text[-size:]:
                    return text[at + size :][: self.n]
        return []


class SimpleTwin(Plain):
    def __init__(self, n: int, m: int) -> None:
        self.n, self.m = n, m

    def draft(self, prompt: list[int], last: int) -> list[int]:
        n, m = self.n, self.m
        if len(prompt) <= n + m + 1:
            return []
        pattern = [*prompt[len(prompt) - n + 1 :], last]
        for at in range(len(prompt) - n - 1, 0, -1):
            if prompt[at : at + n] == pattern:
                copy = prompt[at + n :][:m]
                return copy if len(copy) >= n else []
        return []


@dataclass
class Value:
    place: int = 0
    seen: int = 0
    accepted: int = -1


@dataclass
class Key:
    place: int
    seen_to: int = 0
    hits: int = 0
    values: list[Value] = field(default_factory=list)


class MapTwin:
    def __init__(self, n: int, m: int, min_hits: int, key_only: bool) -> None:
        self.n, self.m, self.min_hits, self.key_only = n, m, min_hits, key_only
        self.keys: list[Key] = []
        self.map: dict[int, int] = {}
        self.last_begin = self.last_check = self.map_last = 0
        self.last: tuple[Key, int] | None = None
        self.undefined = 0

    def hash(self, tokens: list[int]) -> int:
        value = 0
        for token in tokens:
            value = (value * 2654435761 + token) % (1 << 32)
        return value % (1 << 18)

    def begin(self, prompt: list[int]) -> None:
        size, clean = len(prompt), self.last_begin
        if clean > size:
            clean = size - self.n - self.m if size > self.n + self.m else 0
        if size < self.last_check:
            self.map = {code: place for code, place in self.map.items() if place < clean}
            self.map_last = clean - 1 if clean > 0 else 0
            self.keys = [key for key in self.keys if self.survives(key, clean)]
        self.last_check = self.last_begin = size

    def survives(self, key: Key, clean: int) -> bool:
        if key.place >= clean:
            return False
        if self.key_only:
            return True
        for i in (3, 2, 1, 0):
            if key.values[i].place != 0 and key.values[i].place >= clean:
                gone = key.values.pop(i)
                # the last one's accepted count stays in its slot, and the slot is cleared but for it
                stays = key.values[-1].accepted if i < 3 else gone.accepted
                key.values.append(Value(0, 0, stays))
        return key.values[0].place != 0

    def draft(self, prompt: list[int], last: int) -> list[int]:
        n, m, size = self.n, self.m, len(prompt)
        self.last = None
        if size < 2 * n + m:
            return []
        self.last_check = size
        wanted = [*prompt[size - n + 1 :], last]
        region = []
        if self.last_begin > n + m + 1:
            region += list(range(self.last_begin - n - m - 1, self.map_last, -1))
        new = [at for at in range(size - n - m - 1, self.last_begin, -1) if at > self.map_last]
        match = self.map.get(self.hash(wanted), 0)
        if not (match and match < size - n - m - 1 and prompt[match : match + n] == wanted):
            match = next((at for at in region + new if prompt[at : at + n] == wanted), 0)
        for at in region + new:
            self.map.setdefault(self.hash(prompt[at : at + n]), at)
        self.map_last = max(self.map_last, size - n - m - 1)
        if match == 0:
            return []
        key = next((key for key in self.keys if self.equal(prompt, key.place, wanted)), None)
        if key is None:
            key = Key(match, values=[Value(accepted=m) for _ in range(4)])
            self.keys.append(key)
        key.hits = min(key.hits + 1, 16380)
        chosen = 0
        if not self.key_only:
            if key.hits < self.min_hits:
                return []
            self.count(prompt, key, wanted, match)
            seen = [value.seen for value in key.values]
            chosen = seen.index(max(seen))
            others = sum(seen) - seen[chosen]
            if others > 0 and seen[chosen] < 2 * others:
                return []
        self.last = (key, chosen)
        return prompt[match + n :][: min(m, key.values[chosen].accepted)]

    def equal(self, prompt: list[int], at: int, wanted: list[int]) -> bool:
        for i, token in enumerate(wanted):
            if at + i >= len(prompt):
                self.undefined += 1
                return False
            if prompt[at + i] != token:
                return False
        return True

    def count(self, prompt: list[int], key: Key, wanted: list[int], match: int) -> None:
        for at in range(key.seen_to, match + 1):
            if prompt[at : at + self.n] != wanted:
                continue
            follows = prompt[at + self.n : at + self.n + self.m]
            for value in key.values:
                if value.place == 0:
                    value.place, value.seen, value.accepted = at + self.n, 1, self.m
                    break
                if self.equal(prompt, value.place, follows):
                    value.seen = min(value.seen + 1, 16380)
                    break
        key.seen_to = match

    def accept(self, n: int) -> None:
        if self.last is not None:
            key, value = self.last
            key.values[value].accepted = n


class ModTwin:
    def __init__(self, n: int, n_min: int, n_max: int, bits: int = 22) -> None:
        self.n, self.n_min, self.n_max, self.size = n, n_min, n_max, 1 << bits
        self.pool: dict[int, int] = {}
        self.learnt = self.last_draft = self.low = 0

    def index(self, tokens: list[int]) -> int:
        value = 0
        for token in tokens:
            value = (value * 6364136223846793005 + token) % (1 << 64)
        return value % self.size

    def learn(self, prompt: list[int], begin: int) -> None:
        for at in range(begin, len(prompt) - self.n):
            self.pool[self.index(prompt[at : at + self.n])] = prompt[at + self.n]

    def begin(self, prompt: list[int]) -> None:
        self.learnt = self.last_draft = 0
        if len(prompt) < self.n:
            return
        self.learn(prompt, 0)
        self.learnt = len(prompt) - self.n
        if len(self.pool) / self.size > 0.25:
            self.pool = {}

    def draft(self, prompt: list[int], last: int) -> list[int]:
        self.last_draft = 0
        if len(prompt) < self.n:
            return []
        if self.learnt + 32 < len(prompt):
            self.learn(prompt, self.learnt)
            self.learnt = len(prompt) - self.n
        result = [*prompt, last][-self.n :]
        for i in range(self.n_max):
            token = self.pool.get(self.index(result[i:]))
            if token is None:
                if i < self.n_min:
                    return []
                break
            result.append(token)
        self.last_draft = len(result) - self.n
        return result[self.n :]

    def accept(self, n: int) -> None:
        if self.last_draft > 0:
            if n / self.last_draft < 0.25:
                self.low += 1
                if self.low >= 5:
                    self.pool, self.low, self.learnt = {}, 0, 0
            else:
                self.low = 0


Part = dict[int, int]
Table = dict[tuple[int, ...], Part]


class CacheTwin(Plain):
    def __init__(self, static: Table | None = None, dynamic: Table | None = None, n_draft: int = 8) -> None:
        self.context: Table = {}
        self.static, self.dynamic = static or {}, dynamic or {}
        self.n_draft, self.size, self.ties = n_draft, 0, 0

    def learn(self, tokens: list[int], new: int) -> None:
        for size in range(1, 5):
            for at in range(max(len(tokens) - new, size), len(tokens)):
                part = self.context.setdefault(tuple(tokens[at - size : at]), {})
                part[tokens[at]] = part.get(tokens[at], 0) + 1

    def draft(self, prompt: list[int], last: int) -> list[int]:
        if self.size < len(prompt) + 1:
            new = [*prompt[self.size :], last]
            self.learn(new, len(new))
            self.size = len(prompt) + 1
        return self.draft_only([*prompt, last])

    def draft_only(self, text: list[int]) -> list[int]:
        draft: list[int] = []
        if len(text) < 2:
            return []
        while len(draft) < self.n_draft:
            whole = text + draft
            static = self.static.get(tuple(whole[-2:]), {})
            token = self.of_table(self.context, whole, static, (2, 2, 1, 1), (66, 50, 50, 50))
            if token is None:
                token = self.of_table(self.dynamic, whole, static, (4, 3, 2, 2), (75, 66, 66, 66))
            if token is None and static:
                token = self.of_static(static)
            if token is None:
                break
            draft.append(token)
        return draft

    def of_table(
        self, table: Table, whole: list[int], static: Part, samples: tuple[int, ...], percent: tuple[int, ...]
    ) -> int | None:
        for size in (4, 3, 2, 1):
            if size > len(whole):
                continue
            part = table.get(tuple(whole[-size:]), {})
            products = {
                token: int32(count * (int32(100 * static[token]) if token in static else 1))
                for token, count in part.items()
            }
            most, best, token = 0, 0, None
            for each in walk(list(part)):
                if products[each] > best:
                    most, best, token = part[each], products[each], each
            total = int32(sum(part.values()))
            passing = [
                each
                for each in part
                if products[each] == best
                and total >= samples[size - 1]
                and int32(100 * part[each]) >= int32(percent[size - 1] * total)
            ]
            if best > 0 and passing and list(products.values()).count(best) > 1:
                self.ties += 1
            if not part or total < samples[size - 1]:
                continue
            if int32(100 * most) < int32(percent[size - 1] * total):
                continue
            if token is not None:
                return token
        return None

    def of_static(self, static: Part) -> int | None:
        most, token = 0, None
        for each in walk(list(static)):
            if static[each] > most:
                most, token = static[each], each
        total = int32(sum(static.values()))
        if total < 2 or int32(100 * most) < int32(50 * total):
            return None
        self.ties += list(static.values()).count(most) > 1
        return token


Twin = LookupTwin | SimpleTwin | MapTwin | ModTwin | CacheTwin


def serve(
    twins: list[Twin], tokens: list[int], prompt: int, budget: int, *, ended: bool, restores: bool
) -> list[tuple[int, int, int]]:
    """The server's loop over one request: (drafted, accepted, drafter) of each verify step.

    The target's samples are the known answer; what would come after it is never equal to a draft.
    """
    for twin in twins:
        twin.begin(tokens[:prompt])
    answer = [*tokens[prompt:]]
    target: Callable[[int], int] = lambda i: answer[i] if i < len(answer) else -7  # noqa: E731
    is_eog: Callable[[int], bool] = lambda i: ended and i == len(answer) - 1  # noqa: E731
    slot = tokens[:prompt]
    sampled, generated = answer[0], 1
    steps = []
    while generated < len(answer):
        limit = budget - generated - 1
        draft: list[int] = []
        who = -1
        if limit > 0:
            for i, twin in enumerate(twins):
                draft = twin.draft(slot, sampled)
                if draft:
                    draft, who = draft[:limit], i
                    break
        if not draft:
            slot.append(sampled)
            sampled = target(generated)
            generated += 1
            continue
        result = sample_and_accept(draft, generated, target, is_eog)
        n_accepted = len(result) - 1
        steps.append((len(draft), n_accepted, who))
        if len(result) < len(draft) + 1 and restores:
            result = sample_and_accept(result, generated, target, is_eog)
        twins[who].accept(len(result) - 1)
        slot += [sampled, *result[:-1]]
        sampled = result[-1]
        generated += len(result)
    return steps


def sample_and_accept(
    draft: list[int], generated: int, target: Callable[[int], int], is_eog: Callable[[int], bool]
) -> list[int]:
    result = []
    for i, drafted in enumerate(draft):
        sampled = target(generated + i)
        result.append(sampled)
        if drafted != sampled or (is_eog(generated + i) and i + 1 < len(draft)):
            return result
    return [*result, target(generated + len(draft))]

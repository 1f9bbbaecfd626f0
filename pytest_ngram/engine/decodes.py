"""How many decodes of the target a request takes: the arithmetic that joins timings, metrics and trace. Pure.

Held exactly on b11549 over every request tried, at the limit and at the end token, greedy and at 0.7, with
and without replays: `n_decode_total` (after − before) = `prompt_decodes` + `steps`.
"""

from __future__ import annotations


def steps(predicted_n: int, accepted: int) -> int:
    """Decodes after the prompt: plain, verify and replay together.

    The prompt's last decode gives the first token; every later decode gives one token, and one more for each
    drafted token that was accepted. A replay fits in: a draft of 12 that is refused after 2 gives 4 tokens
    (2, the correction, and one after it) in two decodes, and the server counts 2 as accepted.
    """
    return predicted_n - 1 - accepted


def prompt_decodes(prompt_n: int, *, n_batch: int = 2048, n_ubatch: int = 512, checkpoints: bool) -> int:
    """Decodes that a prompt takes.

    Args:
        prompt_n: tokens of the prompt that are processed (`timings.prompt_n`).
        n_batch: `-b`; one decode holds at most so many tokens.
        n_ubatch: `-ub`.
        checkpoints: whether the server stops 4 + `-ub` and 4 tokens before the end to store the state. It
            does on models with a recurrent state or a sliding window, unless `--ctx-checkpoints 0`.

    600 tokens on a hybrid model with `-ub 512`: 84, 512 and 4 tokens, so 3 decodes; 14 tokens: 10 and 4.
    """
    stops = {prompt_n - min(n_batch, offset) for offset in (4 + n_ubatch, 4)} if checkpoints else set()
    done, count = 0, 0
    while done < prompt_n:
        ahead = [stop for stop in stops if stop > done]
        done = min([*ahead, done + n_batch, prompt_n])
        count += 1
    return count

"""The cells of a profile and the order in which they run."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from pytest_ngram.matrix.spec import BASELINE, MatrixSpec
from pytest_ngram.record import ECHO, Cell, Pass


class Start(msgspec.Struct, frozen=True):
    """One start of an engine: the cells of one model × config × temperature × block × pass share it.

    Each temperature has servers of its own: no server is sent the same prompt twice, whatever it remembers.
    `position` is its place among the starts of its block and temperature, from 0.
    """

    model: str
    config: str
    temperature: float
    block: int
    position: int
    pass_: Pass = "first"

    @property
    def id(self) -> str:
        """`model/config/t0/b1`, and the pass behind it where a config has both."""
        tail = f"/{self.pass_}" if self.config == BASELINE else ""
        return f"{self.model}/{self.config}/t{self.temperature:g}/b{self.block}{tail}"


class PlannedCell(msgspec.Struct, frozen=True):
    """A cell before it is measured: its place in the run and what it asks for."""

    start: Start
    prompt: str
    prompt_set: str
    n_predict: int
    rounds: int

    @property
    def is_echo(self) -> bool:
        """Whether its prompt was taken out of a table's corpus."""
        return self.prompt_set == ECHO

    @property
    def id(self) -> str:
        """The test id: `model/config/prompt/t0/b1`, and the pass behind it for `none`."""
        start = self.start
        tail = f"/{start.pass_}" if start.config == BASELINE else ""
        return f"{start.model}/{start.config}/{self.prompt}/t{start.temperature:g}/b{start.block}{tail}"

    @property
    def params(self) -> dict[str, str | int | float]:
        """What `--benchmark-group-by=param:NAME` can name."""
        start = self.start
        return {
            "model": start.model,
            "config": start.config,
            "prompt": self.prompt,
            "prompt_set": self.prompt_set,
            "temperature": start.temperature,
            "block": start.block,
            "pass": start.pass_,
        }

    @property
    def cell(self) -> Cell:
        """The cell as it stands in its record."""
        start = self.start
        return Cell(
            model=start.model,
            config=start.config,
            prompt=self.prompt,
            prompt_set=self.prompt_set,
            temperature=start.temperature,
            block=start.block,
            pass_=start.pass_,
            position=start.position,
        )


def block_order(
    configs: Sequence[str], *, seed: int, model: str, temperature: float, block: int
) -> list[tuple[str, Pass]]:
    """Return the starts of one block at one temperature: `none` first and last, the others shuffled between.

    The shuffle depends on the arguments only, so that a run can be repeated.
    """
    others = [config for config in configs if config != BASELINE]
    random.Random(f"{seed}/{model}/{temperature:g}/{block}").shuffle(others)
    middle: list[tuple[str, Pass]] = [(config, "first") for config in others]
    return [(BASELINE, "first"), *middle, (BASELINE, "last")]


def plan(
    matrix: MatrixSpec,
    profile: str,
    prompts: Mapping[str, Sequence[str]],
    echo: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[PlannedCell]:
    """Return every cell of a profile in the order in which it runs.

    Args:
        matrix: the decoded matrix.
        profile: a key of `matrix.profiles`.
        prompts: prompt ids by prompt set, in the order of the set.
        echo: ids of the prompts out of a table's corpus, by table. They run on the configs with that table
            and on the baseline, and last, so that no type that remembers has seen them before the others.
    """
    cells: list[PlannedCell] = []
    for model in matrix.models_of(profile):
        for start in _starts(matrix, profile, model):
            cells += _cells(matrix, profile, start, prompts)
            cells += _echo_cells(matrix, profile, start, echo)
    return cells


def request_seed(seed: int, prompt: str, block: int, round_: int) -> int:
    """Return the sampling seed of a request: a function of prompt, block and round, shared by all configs.

    31 bits, so that no engine reads it as "choose at random".
    """
    digest = hashlib.sha256(f"{seed}/{prompt}/{block}/{round_}".encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFF_FFFF


def order_lines(cells: Sequence[PlannedCell]) -> list[str]:
    """Return one line per model, block and temperature: the configs in the order in which they start."""
    orders: dict[tuple[str, int, float], list[str]] = {}
    for cell in cells:
        start = cell.start
        configs = orders.setdefault((start.model, start.block, start.temperature), [])
        label = start.config + (f" ({start.pass_})" if start.config == BASELINE else "")
        if label not in configs:
            configs.append(label)
    return [
        f"{model} block {block} t{temperature:g}: {', '.join(configs)}"
        for (model, block, temperature), configs in orders.items()
    ]


def _starts(matrix: MatrixSpec, profile: str, model: str) -> Iterator[Start]:
    blocks = matrix.models[model].blocks or matrix.profiles[profile].blocks
    for block in range(1, blocks + 1):
        for temperature in matrix.profiles[profile].temperatures:
            order = block_order(
                matrix.configs_of(model, profile),
                seed=matrix.seed,
                model=model,
                temperature=temperature,
                block=block,
            )
            for position, (config, pass_) in enumerate(order):
                yield Start(
                    model=model,
                    config=config,
                    temperature=temperature,
                    block=block,
                    pass_=pass_,
                    position=position,
                )


def _cells(
    matrix: MatrixSpec, profile: str, start: Start, prompts: Mapping[str, Sequence[str]]
) -> Iterator[PlannedCell]:
    limits = matrix.profiles[profile]
    for prompt_set in matrix.prompt_sets_of(start.model):
        for prompt in prompts[prompt_set][: limits.prompts.get(prompt_set)]:
            yield _cell(matrix, profile, start, prompt, prompt_set)


def _echo_cells(
    matrix: MatrixSpec, profile: str, start: Start, echo: Mapping[str, Sequence[str]]
) -> Iterator[PlannedCell]:
    for table in matrix.echo_tables(start.model, profile):
        if start.config == BASELINE or matrix.configs[start.config].table == table:
            for prompt in echo[table]:
                yield _cell(matrix, profile, start, prompt, ECHO)


def _cell(matrix: MatrixSpec, profile: str, start: Start, prompt: str, prompt_set: str) -> PlannedCell:
    return PlannedCell(
        start=start,
        prompt=prompt,
        prompt_set=prompt_set,
        n_predict=matrix.models[start.model].n_predict or matrix.profiles[profile].n_predict,
        rounds=matrix.configs[start.config].rounds,
    )

"""The weights against the rule, by a forward pass in numpy; and the dial of acceptance."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pytest_ngram.errors import ModelError
from pytest_ngram.models.handbuilt import HandBuiltSpec
from pytest_ngram.models.handbuilt.dial import Simulation, _walk, dial
from pytest_ngram.models.handbuilt.forward import Forward, matmul
from pytest_ngram.models.handbuilt.layout import C, F, P, Y, phasors
from pytest_ngram.models.handbuilt.trunk import build_weights

MARGIN = 0.1  # of the winning logit; float16 rounding moves logits by less than a hundredth of that


@pytest.fixture(scope="module")
def weights():
    return build_weights(HandBuiltSpec(width=16))


@pytest.fixture(scope="module")
def simulation(weights):
    return Simulation(weights)


def margins(weights, ids: np.ndarray) -> np.ndarray:
    """How far the rule's token leads after every prefix of every row, as a share of its own logit."""
    model = Forward(weights.tensors, weights.n_layer)
    logits = model.logits(model.hidden(ids))
    known = weights.rule
    wanted = np.array(
        [[known.continuation(row[: k + 1], 1)[0] for k in range(len(row))] for row in ids.tolist()]
    )
    lead = np.take_along_axis(logits, wanted[..., None], axis=-1)
    np.put_along_axis(logits, wanted[..., None], -np.inf, axis=-1)
    return ((lead - logits.max(axis=-1, keepdims=True)) / lead)[..., 0]


def random_prompts(weights, kind: str) -> np.ndarray:
    known = weights.rule
    pools = {
        "any": np.arange(len(known.vocabulary)),
        "transparent": np.flatnonzero((known.label < 0) & (known.number < 0)),
        "direct": np.flatnonzero(known.successor >= 0),
        "writing": np.flatnonzero(known.label >= 0),
    }
    return np.random.default_rng(3).choice(pools[kind], (16, 32))


@pytest.mark.parametrize("kind", ["any", "transparent", "direct", "writing"])
def test_the_trunk_follows_the_rule_after_any_prompt(weights, kind):
    """Random ids of every kind, from a single one on: the rule's token wins by a wide margin."""
    assert margins(weights, random_prompts(weights, kind)).min() > MARGIN


@pytest.mark.parametrize("spec", [HandBuiltSpec(seed=9, width=16), HandBuiltSpec(layers=16, width=16)])
def test_other_seeds_and_depths_keep_the_margin(spec):
    """Neither a seed nor depth is special."""
    weights = build_weights(spec)
    assert margins(weights, random_prompts(weights, "any")).min() > MARGIN


def test_adding_is_multiplying_phasors():
    """The product of two phasors, wave by wave, is the phasor of the sum modulo 256."""
    table = phasors(1).table
    as_complex = table[:, ::2] + 1j * table[:, 1::2]
    assert np.allclose(as_complex[200] * as_complex[100], as_complex[(200 + 100) % 256], atol=1e-5)


def test_numbers_are_far_apart():
    """A phasor's product with itself is 7, with any other at most the sidelobe."""
    waves = phasors(1)
    products = waves.table @ waves.table.T
    assert np.allclose(np.diag(products), 7, atol=1e-4)
    np.fill_diagonal(products, -np.inf)
    assert products.max() == pytest.approx(7 * waves.sidelobe, rel=1e-4)
    assert waves.sidelobe < 0.5


def test_every_expert_holds_the_same_product(weights):
    """Each routed expert of the last trunk layer answers F · P in Y, times a gain of 3."""
    table = phasors(1).table
    x = np.zeros((1, 64), np.float32)
    x[0, F], x[0, P] = table[40], table[12]
    prefix = f"blk.{weights.n_layer - 1}.ffn_"
    gate, up, down = (
        weights.tensors[f"{prefix}{part}_exps.weight"].astype(np.float32) for part in ("gate", "up", "down")
    )
    for expert in range(8):
        inner = x @ gate[expert].T
        answer = (inner / (1 + np.exp(-inner)) * (x @ up[expert].T)) @ down[expert].T
        assert np.allclose(answer[0, Y], 3 * table[52], atol=0.02)
    assert len({gate[expert].tobytes() for expert in range(8)}) == 8


def test_the_register_is_held_and_shifted(weights):
    """After a writing word and twenty transparent tokens, C still carries the word's label."""
    known, table = weights.rule, phasors(1).table
    word = known.vocabulary.word_id(" что")
    hidden = Forward(weights.tensors, weights.n_layer).hidden(np.array([[word, *[10] * 20]]))
    assert int((table @ hidden[0, -1, C]).argmax()) == known.label[word]


def test_shared_experts_do_not_change_the_text(weights):
    """They are left out of the simulation because they move the hidden state by less than a percent."""
    ids = random_prompts(weights, "any")
    with_them = Forward(weights.tensors, weights.n_layer).hidden(ids)
    without = Forward(weights.tensors, weights.n_layer, shared_experts=False).hidden(ids)
    assert 0 < np.abs(with_them - without).max() < 0.01 * np.abs(with_them).max()


def test_blocked_product_is_the_product():
    """Splitting rows into blocks changes nothing but the order of work."""
    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=(3, 37, 64)), rng.normal(size=(64, 384))
    assert np.allclose(matmul(x, weight), x @ weight)


def test_walk_by_hand():
    """1 0 0 1 1: drafts at positions 0, 2 and 3; accepted, rejected, accepted."""
    assert _walk(np.array([1, 0, 0, 1, 1], bool)) == pytest.approx(2 / 3)
    assert _walk(np.array([0, 0], bool)) == 0
    assert _walk(np.array([1, 0, 1, 0], bool)) == 1


def test_without_noise_the_drafts_are_right(simulation):
    """Sigma 0 accepts nearly everything, the largest sigma nearly nothing."""
    assert simulation.acceptance(0.0).mean > 0.99
    assert simulation.acceptance(4.0).mean < 0.05


def test_more_noise_accepts_less(simulation):
    """The dial turns one way: bisection has one place to find."""
    means = [simulation.acceptance(k / 8).mean for k in range(13)]
    assert all(a >= b - 0.005 for a, b in pairwise(means))
    assert means[0] - means[-1] > 0.8


def test_classes_accept_differently(simulation):
    """At medium noise prose is drafted worse than code and phrases."""
    by_class = simulation.acceptance(0.45).acceptance
    assert max(by_class["en"], by_class["ru"]) < min(by_class["code"], by_class["phrase"])


@pytest.mark.parametrize("target", [0.3, 0.5, 0.7, 0.9])
def test_the_dial_reaches_its_target(weights, target):
    """The simulated mean over the four classes is the target to 0.01."""
    found = dial(weights, target)
    assert found.mean == pytest.approx(target, abs=0.01)
    assert found.mean == pytest.approx(sum(found.acceptance.values()) / 4)


def test_a_target_out_of_reach_names_the_nearest(weights, monkeypatch):
    """The error says what can be had."""
    monkeypatch.setattr("pytest_ngram.models.handbuilt.dial.MAX_SIGMA", 0.125)
    with pytest.raises(ModelError, match=r"acceptance of 0\.3 is out of") as caught:
        dial(weights, 0.3)
    assert "at sigma 0.12" in caught.value.checked[0]


def test_a_trunk_that_breaks_its_rule_is_noticed(weights):
    """The simulation refuses weights that do not compute the rule."""
    head = weights.tensors["output.weight"]
    broken = {**weights.tensors, "output.weight": np.roll(head, 1, axis=0)}
    with pytest.raises(ModelError, match="does not follow its rule"):
        Simulation(
            type(weights)(broken, weights.n_layer, weights.sigma_pattern, weights.rule, weights.phasors)
        )

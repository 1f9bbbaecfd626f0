"""The rule of the hand-built model, from its words to its cycles."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pytest_ngram.errors import ModelError
from pytest_ngram.models.handbuilt import HandBuiltSpec, rule
from pytest_ngram.models.handbuilt.chain import MIN_CYCLE
from pytest_ngram.models.handbuilt.vocabulary import ROLES, vocabulary
from pytest_ngram.models.handbuilt.words import CLASSES, PHRASE_LENGTH

RULE = rule(HandBuiltSpec())
VOCAB = vocabulary()
TOKEN = {text: index for index, text in enumerate(VOCAB.tokens)}
LINE_END = ord("\n")


def ids(*words: str) -> list[int]:
    return [VOCAB.word_id(word) for word in words]


def chat(*message: int) -> list[int]:
    """One user message in the model's template."""
    turn = [TOKEN["<|im_start|>"], TOKEN["user"], LINE_END, *message, TOKEN["<|im_end|>"], LINE_END]
    return [*turn, TOKEN["<|im_start|>"], TOKEN["assistant"], LINE_END]


def message(name: str) -> list[int]:
    """Words of a class that end where the class's register is written."""
    return ids(*RULE.word_classes[name][:PHRASE_LENGTH])


def oracle(prompt: list[int], n: int) -> list[int]:
    """The rule once more, written down token by token from its definition, over word numbers."""
    number_of = {int(token): u for u, token in enumerate(RULE.token_of_number)}
    register, said = 0, []
    tokens = list(prompt)
    for at in range(len(prompt) + n - 1):
        token = tokens[at]
        if RULE.successor[token] >= 0:
            following = RULE.successor[token]
        else:
            following = (RULE.addend[token] + register) % 256
        if RULE.label[token] >= 0:
            register = RULE.label[token]
        if at >= len(prompt) - 1:
            tokens.append(int(RULE.token_of_number[following]))
            said.append(tokens[-1])
    assert all(token in number_of for token in said)
    return said


def test_words_are_single_tokens_of_four_classes():
    """256 words, 64 a class, no word twice, each one token whose text is the word."""
    words = [word for name in CLASSES for word in RULE.word_classes[name]]
    assert len(words) == len(set(words)) == 256
    assert {name: len(RULE.word_classes[name]) for name in CLASSES} == dict.fromkeys(CLASSES, 64)
    for name in CLASSES:
        for word in RULE.word_classes[name]:
            assert RULE.text(ids(word)) == word
            assert RULE.class_of(VOCAB.word_id(word)) == name


def test_merges_build_each_word_from_its_start():
    """Applied by rank, as a BPE tokenizer does, the merges give every word as one token."""
    rank = {tuple(merge.split(" ")): index for index, merge in enumerate(VOCAB.merges)}
    texts = [VOCAB.tokens[VOCAB.word_id(w)] for words in RULE.word_classes.values() for w in words]
    for text in [*texts, *ROLES]:
        parts = list(text)
        while pairs := [pair for pair in pairwise(parts) if pair in rank]:
            best = min(pairs, key=rank.__getitem__)
            at = next(i for i in range(len(parts)) if tuple(parts[i : i + 2]) == best)
            parts[at : at + 2] = ["".join(best)]
        assert parts == [text]


def test_code_follows_its_recurrence_by_hand():
    """Word i follows words c, t of code as i = (c + 3 t + 7) mod 64."""
    words = RULE.word_classes["code"]
    # After `(` = 0 and `)` = 1: 0 + 3 + 7 = 10; then 1 + 30 + 7 = 38; then 10 + 114 + 7 = 131, less 128 is 3.
    assert RULE.continuation(ids("(", ")"), 3) == ids(words[10], words[38], words[3])


def test_phrases_run_to_their_end_and_into_another_start():
    """The fifteen words after a phrase's first are the rest of it; then another phrase begins."""
    phrases = [RULE.word_classes["phrase"][k : k + PHRASE_LENGTH] for k in range(0, 64, PHRASE_LENGTH)]
    starts = {VOCAB.word_id(phrase[0]) for phrase in phrases}
    for phrase in phrases:
        said = RULE.continuation(ids(*phrases[0], phrase[0]), PHRASE_LENGTH)
        assert said[:-1] == ids(*phrase[1:])
        assert said[-1] in starts


def test_transparent_tokens_say_the_register_plus_twenty():
    """Control tokens, digits and line ends leave the register alone; number 0 is the empty register."""
    word = ids(" the")[0]
    register = int(RULE.label[word])
    for token in (LINE_END, ord("7"), TOKEN["<|im_end|>"], TOKEN["user"]):
        assert RULE.continuation([word, token], 1) == [RULE.token_of_number[(register + 20) % 256]]
        assert RULE.continuation([token], 1) == [RULE.token_of_number[20]]


def test_pieces_and_stray_bytes_write_a_number_of_their_alphabet():
    """A Latin letter sets an en register, a byte of Cyrillic a ru one, a digit none."""
    assert RULE.register_after([ord("q")]) % 4 == CLASSES.index("en")
    assert RULE.register_after([0xD0]) % 4 == CLASSES.index("ru")
    assert RULE.register_after([*ids(" что"), ord("7")]) == RULE.register_after(ids(" что"))
    assert RULE.register_after([]) == 0


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_chat_in_one_class_is_answered_in_it(name, seed):
    """Whatever word of the class ends the message (a phrase's last word), 1200 tokens stay in the class."""
    known = rule(HandBuiltSpec(seed=seed))
    ends = RULE.word_classes[name]
    for word in ends[15::16] if name == "phrase" else ends[::9]:
        said = known.continuation(chat(*ids(word)), 1200)
        assert {known.class_of(token) for token in said} == {name}


@pytest.mark.parametrize("name", ["en", "ru"])
def test_prose_does_not_repeat_itself_early(name):
    """No pair of neighbouring words comes twice within 1024 tokens of prose."""
    said = RULE.continuation(chat(*message(name)), MIN_CYCLE)
    assert len(set(pairwise(said))) == MIN_CYCLE - 1


@pytest.mark.parametrize(("name", "period"), [("code", 96), ("phrase", 256)])
def test_code_and_phrases_repeat_themselves(name, period):
    """Code repeats after at most 96 words, phrases after 256: text that an n-gram table can learn."""
    said = RULE.continuation(chat(*message(name)), 3 * period)
    assert said[:period] == said[period : 2 * period]


@pytest.mark.parametrize("name", CLASSES)
def test_continuation_is_the_definition_applied(name):
    """The rule agrees with a second writing of its definition."""
    prompt = chat(*message(name))
    assert RULE.continuation(prompt, 300) == oracle(prompt, 300)
    assert RULE.continuation(prompt, 0) == []


def test_a_continuation_can_be_taken_up_where_it_stopped():
    """The first n ids of a longer continuation are the shorter one, and the rest follows from them."""
    prompt = chat(*message("en"))
    whole = RULE.continuation(prompt, 50)
    assert whole == RULE.continuation(prompt, 20) + RULE.continuation(prompt + whole[:20], 30)


@pytest.mark.parametrize("prompt", [[], [-1], [5, 99_999]])
def test_ids_of_another_vocabulary_are_refused(prompt):
    """An empty prompt and ids outside the vocabulary are errors that say so."""
    with pytest.raises(ModelError, match="at least one id"):
        RULE.continuation(prompt, 1)


def test_text_leaves_special_tokens_out():
    """As `/completion` does; a broken letter becomes U+FFFD."""
    assert RULE.text(chat(*ids(" модель"))) == "user\n модель\nassistant\n"
    assert RULE.text([0xD0]) == "\ufffd"

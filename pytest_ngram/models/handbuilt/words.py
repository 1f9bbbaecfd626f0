"""The words that the hand-built model speaks: four classes of 64, each word one token.

A class stands for one kind of text that speculative decoding meets: `en` and `ru` for prose that hardly
repeats itself, `code` for text with a short period, `phrase` for set phrases that an n-gram table knows.
"""

from __future__ import annotations

CLASSES = ("en", "ru", "code", "phrase")
WORDS_PER_CLASS = 64
PHRASE_LENGTH = 16  # words in one set phrase

_EN = """
the of and to that is was with model cache token memory speed test result time data value layer
expert weight draft accept reject fast slow small large first last next previous number system user
answer question because when where which then there each some many more less than into over under
after before between during without again always never often only other same
"""
_RU = """
и в на не что это как для при из по модель память токен слой кэш время данные значение эксперт вес
черновик быстро медленно первый последний новый старый число система ответ вопрос потому когда где
который затем там каждый много мало больше меньше чем под после перед между без снова всегда никогда
часто только другой такой очень если тоже можно нужно уже ещё сейчас
"""
_CODE_SIGNS = "( ) [ ] { } : , . = + * < > ; _"
_CODE_WORDS = """
def return if else for import class self None True False print len range int str list dict set try
except raise yield lambda assert pass break continue global async await float bool open read write
append join split map filter zip sorted sum min max abs any
"""
_PHRASES = """
server listening at http port waiting new tasks
every slots are idle now ready ok done

request finished tokens decoded per second speculative statistics
calls drafts generated accepted rate shown here end

loading tensors from file buffer size mapped onto
gpu offloaded layers graph nodes splits warmup complete

context shift disabled prompt processing progress checkpoint created
erased slot released truncated stop reason length limit
"""


def class_words() -> dict[str, tuple[str, ...]]:
    """Return the 64 words of each class as they stand in running text, the leading space included.

    The signs of `code` have no leading space. The words of `phrase` stand phrase after phrase.
    """
    spaced = {"en": _EN, "ru": _RU, "code": _CODE_WORDS, "phrase": _PHRASES}
    words = {name: tuple(" " + word for word in text.split()) for name, text in spaced.items()}
    words["code"] = (*_CODE_SIGNS.split(), *words["code"])
    return words

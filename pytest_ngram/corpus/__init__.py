"""Chat corpora: reading, checking and choosing from them."""

from pytest_ngram.corpus.reader import Corpora, Corpus, Format, OnBad, read_corpora, read_corpus
from pytest_ngram.corpus.report import CorpusReport, Skipped, added, balance
from pytest_ngram.corpus.rows import Message
from pytest_ngram.corpus.selection import Selection, parse_time

__all__ = [
    "Corpora",
    "Corpus",
    "CorpusReport",
    "Format",
    "Message",
    "OnBad",
    "Selection",
    "Skipped",
    "added",
    "balance",
    "parse_time",
    "read_corpora",
    "read_corpus",
]

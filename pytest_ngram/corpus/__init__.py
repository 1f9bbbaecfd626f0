"""Chat corpora: reading and checking them."""

from pytest_ngram.corpus.reader import Corpus, CorpusReport, Message, OnBad, Skipped, read_corpus

__all__ = ["Corpus", "CorpusReport", "Message", "OnBad", "Skipped", "read_corpus"]

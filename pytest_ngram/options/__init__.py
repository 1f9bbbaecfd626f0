"""Options of pytest and its ini file, read once into one frozen object."""

from pytest_ngram.options.declared import CACHE_VARIABLE, SERVER_VARIABLE, add_options
from pytest_ngram.options.settings import GateOptions, Settings, cache_folder, read
from pytest_ngram.options.which_matrix import MATRIX, User, matrix_of

__all__ = [
    "CACHE_VARIABLE",
    "MATRIX",
    "SERVER_VARIABLE",
    "GateOptions",
    "Settings",
    "User",
    "add_options",
    "cache_folder",
    "matrix_of",
    "read",
]

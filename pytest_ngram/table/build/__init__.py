"""A corpus becomes a table: tokens, counts, file and manifest, kept in a cache. Ready tables are checked."""

from pytest_ngram.table.build.builder import BuiltTable, OnProgress, Tokenize, build_table, cache_key
from pytest_ngram.table.build.load import LoadedTable, TableInfo, info, load_table
from pytest_ngram.table.build.manifest import Manifest, TableParams, manifest_path, table_record

__all__ = [
    "BuiltTable",
    "LoadedTable",
    "Manifest",
    "OnProgress",
    "TableInfo",
    "TableParams",
    "Tokenize",
    "build_table",
    "cache_key",
    "info",
    "load_table",
    "manifest_path",
    "table_record",
]

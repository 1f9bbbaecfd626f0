"""A corpus becomes a table: tokens, counts, file and manifest, kept in a cache. Ready tables are checked."""

from pytest_ngram.table.build.builder import (
    BuiltTable,
    Tokenizer,
    Wanted,
    build_table,
    cache_key,
    make_table,
)
from pytest_ngram.table.build.load import LoadedTable, TableInfo, info, load_table
from pytest_ngram.table.build.manifest import Manifest, Source, TableParams, manifest_path, table_record
from pytest_ngram.table.build.tokens import OnProgress, Progress

__all__ = [
    "BuiltTable",
    "LoadedTable",
    "Manifest",
    "OnProgress",
    "Progress",
    "Source",
    "TableInfo",
    "TableParams",
    "Tokenizer",
    "Wanted",
    "build_table",
    "cache_key",
    "info",
    "load_table",
    "make_table",
    "manifest_path",
    "table_record",
]

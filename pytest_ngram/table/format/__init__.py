"""llama.cpp's file of a static lookup table, to bytes and back, checked harder than llama.cpp does. Pure.

The file has no header and no number of records. Each record is little-endian int32:
`tokens[4]` (unused ones −1), `n_pairs` (above 0), then `n_pairs` times (`token`, `count` above 0), until the
file ends (b11434, `common/ngram-cache.cpp`). A 2-gram record is 20 bytes and 8 more for each pair.
"""

from pytest_ngram.table.format.checks import DeadWeight, TableFacts, verify
from pytest_ngram.table.format.codec import decode, encode

__all__ = ["DeadWeight", "TableFacts", "decode", "encode", "verify"]

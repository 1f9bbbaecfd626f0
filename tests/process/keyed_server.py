"""The embedded server behind an API key: `keyed_server.py KEY <flags>`, which says where it listens.

The engine itself refuses `--api-key`, since it would be recorded; this stands for a server of someone else.
"""

from __future__ import annotations

import sys
import time

import xllamacpp

from pytest_ngram.engine import embedded, flags


def main() -> None:
    params = embedded.common_params(flags.parse(sys.argv[2:]), xllamacpp)
    params.api_keys = [sys.argv[1]]
    server = xllamacpp.Server(params)
    sys.stdout.write(server.listening_address + "\n")
    sys.stdout.flush()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()

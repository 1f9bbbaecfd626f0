"""`pytest-ngram init`: writes `bench/`, `gates/` and a CI workflow into somebody's repository."""

from pytest_ngram.init.write import Wanted, Written, write

__all__ = ["Wanted", "Written", "write"]

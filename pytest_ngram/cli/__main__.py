"""`python -m pytest_ngram.cli`."""

import sys

from pytest_ngram.cli import main

sys.exit(main())

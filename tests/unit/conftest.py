"""Machine code of the drafters is kept between sessions: compiling it takes longer than all these tests."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pytest_ngram.replay.kernels import keep_kernels

# before a test imports the drafters; the folder is that of these very sources, so sessions may share it
keep_kernels(Path(tempfile.gettempdir()) / f"pytest-ngram-{os.getuid()}")

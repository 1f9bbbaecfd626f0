"""Kernels: functions over integer arrays, compiled by numba where it is installed, plain Python where not.

The same source runs both ways, so the results are the same; only the speed is not. Kernels keep to int64
values
that cannot overflow: what C++ computes in fewer bits is wrapped or masked by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

P = ParamSpec("P")
R = TypeVar("R")
Longs = npt.NDArray[np.int64]

try:
    from numba import config, njit
except ImportError:
    config = njit = None

COMPILED = njit is not None


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function at its first call; without numba return it as it is.

    Machine code is kept only where a folder for it is set (`replay.kernels`): numba takes a kernel for
    unchanged while its own file is, though it calls kernels of other files.
    """
    if njit is None:
        return function
    compiled: Callable[P, R] = njit(cache=bool(config.CACHE_DIR), nogil=True)(function)
    return compiled

"""Kernels: functions over integer arrays, compiled by numba where it is installed, plain Python where not.

The same source runs both ways, so the results are the same; only the speed is not. Kernels keep to int64 values
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
    import numba
except ImportError:
    numba = None

COMPILED = numba is not None and not numba.config.DISABLE_JIT


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function at its first call and keep the machine code on disk; without numba return it as is."""
    if numba is None:
        return function
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True)(function)
    return compiled

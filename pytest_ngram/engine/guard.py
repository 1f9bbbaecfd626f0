"""Becomes another program that ends with the process which started it.

Run as a file, `python -I -S guard.py PARENT_PID PROGRAM [ARGUMENT…]`: it asks the kernel for SIGKILL at the
death of its parent, makes sure that the parent still lives, and executes the program in its own place. So
pid, process group, signals and exit code are the program's own. It imports the standard library alone and
takes nothing from the environment.

The kernel counts the *thread* that started it as its parent.
Exit codes of its own: 0 where the parent is already gone, 126 where the program cannot be executed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Become the program. Returns an exit code only where it could not."""
    parent, command = int(argv[0]), argv[1:]
    with suppress(AttributeError):  # the call is Linux's own
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return 0
    # Python ignores these, and what is ignored stays so in the program
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - becoming the program that the user named is the purpose
    except OSError as error:
        print(f"cannot execute {command[0]}: {error}", file=sys.stderr, flush=True)  # noqa: T201 - to the log
        return 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

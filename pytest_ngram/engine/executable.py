"""Whether a file can be run on this host, told before it is tried."""

from __future__ import annotations

import os
import platform
import struct
from pathlib import Path

from pytest_ngram.errors import EngineError

_ELF = b"\x7fELF"
# e_machine of the ELF header, and how `platform.machine()` calls it
_MACHINES = {3: "i386", 8: "mips", 21: "ppc64", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_MACHINES |= {258: "loongarch64", 22: "s390x"}
_ALSO_CALLED = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386", "ppc64le": "ppc64", "armv7l": "arm"}
_OTHER_SYSTEMS = {
    b"MZ": "a program for Windows",
    b"\xcf\xfa\xed\xfe": "a program for macOS",
    b"\xca\xfe\xba\xbe": "a program for macOS",
}


def require_runnable(path: Path) -> None:
    """Check the file's mode and its first bytes.

    Raises:
        EngineError: outcome `refused`: no file, not executable, neither ELF nor a script, or for another
            architecture.
    """
    if not path.is_file():
        raise _refuse(f"{path} is not a file", path, "name the program itself or its folder")
    if not os.access(path, os.X_OK):
        raise _refuse(f"{path} is not executable", path, f"chmod +x {path}")
    head = head_of(path)
    if head.startswith(b"#!"):
        return
    if not head.startswith(_ELF):
        what = next((name for magic, name in _OTHER_SYSTEMS.items() if head.startswith(magic)), None)
        cause = f"{path} is {what}" if what else f"{path} is neither a program nor a script"
        raise _refuse(cause, path, "name a llama-server built for this system", head)
    built_for, here = machine_of(head), platform.machine()
    if built_for != _ALSO_CALLED.get(here.lower(), here):
        raise _refuse(
            f"{path} is built for {built_for}, this host is {here}", path, "use a build for this host", head
        )


def head_of(path: Path) -> bytes:
    """Return the first 20 bytes. Raises `EngineError` (`refused`) for a file that may be run and not read."""
    try:
        with path.open("rb") as file:
            return file.read(20)
    except OSError as error:
        raise EngineError(
            f"{path} cannot be read",
            outcome="refused",
            checked=[str(error), "its bytes are hashed, so that the record says what ran"],
            fix=f"chmod +r {path}",
        ) from error


def machine_of(head: bytes) -> str:
    """Return the architecture that an ELF header (its first 20 bytes or more) names."""
    if len(head) < 20:
        return "an incomplete header"
    number = int(struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)[0])
    return _MACHINES.get(number, f"machine {number}")


def _refuse(cause: str, path: Path, fix: str, head: bytes = b"") -> EngineError:
    checked = [f"{path}"] + ([f"it begins with {head[:4]!r}"] if head else [])
    return EngineError(cause, outcome="refused", checked=checked, fix=fix)

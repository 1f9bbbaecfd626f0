"""The wheel carries the package and its data, and works without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import pytest_ngram

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_ngram"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout, unpacked: what an installation has."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_every_module_is_in_the_wheel(unpacked: Path) -> None:
    """Nothing of the package is left out, and what is there are the same bytes."""
    modules = sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)
    assert len(modules) > 50
    for module in (*modules, Path("pytest_ngram/py.typed")):
        assert (unpacked / module).read_bytes() == (ROOT / module).read_bytes()


@pytest.mark.parametrize("folder", ["prompts", "corpus"])
def test_the_wheel_has_the_fixtures(unpacked: Path, folder: str) -> None:
    """Prompt sets, tool schemas, demo corpus and its licence notices are in the wheel, byte for byte."""
    files = sorted(path for path in (ROOT / "fixtures" / folder).iterdir() if path.is_file())
    assert len(files) >= 2
    for path in files:
        assert (unpacked / "pytest_ngram" / "_data" / folder / path.name).read_bytes() == path.read_bytes()


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

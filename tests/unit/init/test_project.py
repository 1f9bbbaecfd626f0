"""What is known of the repository that is written into."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.errors import OptionError
from pytest_ngram.init.project import PytestConfig, look


@pytest.mark.parametrize(
    ("name", "text", "section", "testpaths"),
    [
        ("pytest.ini", "[pytest]\ntestpaths = tests\n", "[pytest]", True),
        ("pytest.ini", "", "[pytest]", False),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n", "[tool.pytest.ini_options]", False),
        ("pyproject.toml", "[tool.pytest]\ntestpaths = ['t']\n", "[tool.pytest]", True),
        ("pytest.toml", "[pytest]\ntestpaths = ['t']\n", "[pytest]", True),
        ("tox.ini", "[tox]\n[pytest]\ntestpaths = a%b\n", "[pytest]", True),
        ("setup.cfg", "[tool:pytest]\n", "[tool:pytest]", False),
    ],
)
def test_the_configuration_of_pytest_is_found(
    tmp_path: Path, name: str, text: str, section: str, testpaths: bool
) -> None:
    """In each place where pytest looks, and whether it says what `pytest` alone runs."""
    (tmp_path / name).write_text(text)
    assert look(tmp_path).config == PytestConfig(name, section, testpaths)


@pytest.mark.parametrize(
    ("name", "text"),
    [("pyproject.toml", "[project]\nname='x'\n"), ("tox.ini", "[tox]\n"), ("setup.cfg", "[metadata]\n")],
)
def test_other_files_configure_nothing(tmp_path: Path, name: str, text: str) -> None:
    """A project file without pytest's section is none."""
    (tmp_path / name).write_text(text)
    assert look(tmp_path).config is None


def test_the_first_in_pytests_order_counts(tmp_path: Path) -> None:
    """pytest.ini hides pyproject.toml, as it does for pytest."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths=['a']\n")
    assert look(tmp_path).config == PytestConfig("pytest.ini", "[pytest]", False)


def test_settings_are_written_as_the_file_writes_them() -> None:
    """Quotes in TOML, none in an ini file."""
    assert PytestConfig("pyproject.toml", "[tool.pytest]", False).line("a", "b") == 'a = "b"'
    assert PytestConfig("tox.ini", "[pytest]", False).line("a", "b") == "a = b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[submodule "x"]\n\tpath = third_party/llama.cpp\n\turl = https://h/x.git\n',
            "third_party/llama.cpp",
        ),
        ('[submodule "y"]\n\tpath = engine\n\turl = https://h/ggml-org/llama.cpp\n', "engine"),
        ('[submodule "z"]\n\tpath = other\n\turl = https://h/other\n', None),
    ],
)
def test_the_submodule_is_found(tmp_path: Path, text: str, expected: str | None) -> None:
    """By its path or by its URL."""
    (tmp_path / ".gitmodules").write_text(text)
    assert look(tmp_path).submodule == expected


@pytest.mark.parametrize(
    ("name", "text"), [("pyproject.toml", "[tool"), ("tox.ini", "no section\n"), (".gitmodules", "x\n")]
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, text: str) -> None:
    """It is said which file, and why, before anything is written."""
    (tmp_path / name).write_text(text)
    with pytest.raises(OptionError, match="cannot be read") as raised:
        look(tmp_path)
    assert name in str(raised.value)


def test_a_file_is_no_repository(tmp_path: Path) -> None:
    """A place that is a file is refused; one that is not there yet is not."""
    (tmp_path / "f").write_text("")
    with pytest.raises(OptionError, match="is a file"):
        look(tmp_path / "f")
    assert look(tmp_path / "new").config is None

"""The files that come with the package: prompts, demo corpus, a matrix, templates."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

PACKAGE = "pytest_ngram"
FOLDER = "_data"
_HERE = Path(__file__).parent
# The goldens of the hand-built model are those of every engine; those of others belong to one build.
GATES = (
    "test_accounting.py",
    "test_control.py",
    "test_golden.py",
    "test_identity.py",
    "test_isolation.py",
    "test_known_issues.py",
    "test_prompt.py",
    "test_seam.py",
    "test_vacuity.py",
    "known_issues.yaml",
    "golden/tiny-moe.prompts.yaml",
    "golden/tiny-moe.texts.yaml",
)
# Where each lies in a checkout; the build copies it into the wheel (force-include in pyproject.toml).
SOURCES = {
    "prompts": "fixtures/prompts",
    "corpus": "fixtures/corpus",
    "matrix.yaml": "fixtures/matrix.yaml",
    "init/bench/test_cells.py": "bench/test_cells.py",
    **{f"init/gates/{name}": f"gates/{name}" for name in GATES},
    "init/.github/workflows/ngram.yml": "fixtures/ngram.yml",
}


def shipped(name: str) -> Path:
    """Return a shipped file by its name below `pytest_ngram/_data/`.

    An editable installation has no `_data`: there it is the checkout's own file. The path need not exist.
    """
    packaged = _HERE / FOLDER / name
    if packaged.exists():
        return packaged
    for target, source in SOURCES.items():
        if PurePosixPath(name).is_relative_to(target):
            inside = PurePosixPath(name).relative_to(target)
            return _HERE.parent / source / inside
    return packaged

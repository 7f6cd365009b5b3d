"""Python's own prose: what its standard library says of itself, which is there wherever Python is."""

import ast
import json
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from partwise.corpora import CORPORA, Text, documents_of
from partwise.user_cache import cached

SHORTEST = 200  # letters of a docstring; shorter ones are hardly prose
NO_PROSE = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__"}


@CORPORA.register("standard_library")
@dataclass(frozen=True, kw_only=True)
class StandardLibrary:
    """English technical prose, about 2 MB: the reference texts of `help()`, and docstrings of 200 letters or more.

    A document is a help topic, or all docstrings of a module: modules are held out whole. The text is that of the
    Python that runs, so numbers are not to be compared between versions. Nothing to set, and nothing to install.
    """

    def read(self) -> Text:
        version = ".".join(map(str, sys.version_info[:3]))
        file = cached(f"corpora/standard-library-{version}.json", _write)
        return Text(
            documents=documents_of(json.loads(file.read_text(encoding="utf-8")), "standard_library"),
            name="standard_library",
        )


def _write(path: Path) -> None:
    """Reading 12 MB of source for its docstrings takes seconds."""
    from pydoc_data.topics import topics

    path.write_text(json.dumps([*map(topics.__getitem__, sorted(topics)), *_modules()]), encoding="utf-8")


def _modules() -> Iterator[str]:
    folder = Path(sysconfig.get_path("stdlib"))
    for file in sorted(folder.rglob("*.py")):
        if NO_PROSE.isdisjoint(file.relative_to(folder).parts) and "pydoc_data" not in file.parts:
            found = list(_docstrings(file.read_text(encoding="utf-8", errors="replace")))
            if found:
                yield "\n\n".join(found)


def _docstrings(source: str) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old escapes
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text and len(text) >= SHORTEST:
                yield text

"""The docs hold together: links, the generated page, the README's tree and commands."""

import os
import re
import shlex
from pathlib import Path

import pytest

from partwise.catalogue import page

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_catalogue_page_is_what_the_docstrings_say():
    path = ROOT / "docs/catalogue.md"
    if os.environ.get("PARTWISE_PIN"):
        path.write_text(page(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == page(), (
        "PARTWISE_PIN=1 python -m pytest tests/test_docs.py writes it anew"
    )


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_the_readme_ends_in_a_tree_with_a_line_for_each_folder():
    tree = (ROOT / "README.md").read_text(encoding="utf-8").rsplit("## The tree", 1)[1]
    named = set(re.findall(r"([\w/.]+)/ ", tree))
    inside = {path.name for path in (ROOT / "src/partwise").iterdir() if path.is_dir() and path.name[0] not in "_."}
    assert inside <= named
    assert {"examples", "tests", "docs"} <= named
    assert all((ROOT / place).is_dir() or (ROOT / "src/partwise" / place).is_dir() for place in named)


def test_the_commands_of_the_readme_are_commands(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from partwise.cli import app

    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line.split(" #")[0].strip() for line in text.splitlines() if line.startswith("    partwise ")]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] in ("run", "reproduce") and "--plugin" not in words:
            words += ["--dry-run"] if "--dry-run" not in words else []
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, (line, result.output, result.exception)
        elif words[0] == "list":
            assert CliRunner().invoke(app, words).exit_code == 0

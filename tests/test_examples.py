"""Each example at its smallest size."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SMALLEST = {"02_what_must_learn": {"seeds": 1, "out": "out"}}


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem.endswith("hugging_face"):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))["main"](steps=20, **SMALLEST.get(path.stem, {}))
    assert "accuracy" in capsys.readouterr().out

"""What the tables of costs are made of: counts that are exact, slopes, groups, and a page that can be written."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import arms, scaling
from benchmarks.analytic import counted_flops
from benchmarks.memory import HAS_PROC, peak_bytes
from benchmarks.page import page
from benchmarks.pairs import ratio
from benchmarks.text import RandomText
from benchmarks.work import Work
from partwise.tasks.needle import Needle

TINY = Work(n_blocks=2, width=16, batch=2, task=RandomText(length=12, vocabulary=30))


@pytest.mark.parametrize("arm", ["standard", "frozen_qk", "frozen_mlp", "mixit"])
@pytest.mark.parametrize("sizes", [{}, {"n_blocks": 1, "width": 32}, {"batch": 5}], ids=["tiny", "flat", "batch"])
def test_the_formula_is_what_torch_counts(arm, sizes):
    work = replace(TINY, arm=arm, **sizes)
    assert work.flops == counted_flops(work.model(), work.learn, work.draw())


def test_the_formula_knows_that_few_positions_are_read():
    work = Work(n_blocks=1, width=16, batch=3, task=Needle(n_pairs=4))
    assert work.flops == counted_flops(work.model(), work.learn, work.draw())


def test_a_step_trains_what_learns_and_nothing_else():
    work = replace(TINY, arm="frozen_qk")
    model = work.model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    step = work.step(model)
    losses = [step() for _ in range(5)]
    assert losses[-1] < losses[0]
    still = {name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])}
    assert still == before.keys() - work.learn.learning(model, 0)


def test_a_ratio_is_taken_round_by_round():
    assert ratio([2, 6, 4], [1, 2, 4]) == (2, 1, 3)


def test_a_slope_is_the_exponent():
    found = scaling.log_slope([1, 2, 4, 8], [3, 12, 48, 192])
    assert found["slope"] == pytest.approx(2)
    assert found["standard_error"] == pytest.approx(0, abs=1e-6)
    assert found["last"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("operator", "group"),
    [
        ("aten::addmm", "matrix products"),
        ("AddmmBackward0", scaling.REST),
        ("aten::_log_softmax_backward_data", "loss and embedding"),
        ("aten::_softmax", "mixing of positions"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "mixing of positions"),
        ("aten::_fused_adamw_", "optimizer and clipping"),
        ("aten::silu_backward", "element by element"),
        ("aten::add_", "copies and sums"),
        ("aten::view", scaling.REST),
    ],
)
def test_an_operator_belongs_to_one_group(operator, group):
    assert scaling.group_of(operator) == group


@pytest.mark.skipif(not HAS_PROC, reason="only Linux tells the peak of a process")
def test_more_work_takes_more_memory():
    small, large = (peak_bytes(replace(TINY, batch=n, task=RandomText(length=128, vocabulary=512))) for n in (8, 64))
    logits = 4 * 128 * 512  # of one example
    assert large - small > 56 * logits


@pytest.fixture(scope="module")
def measured():
    """Both tables, at sizes of no interest and without the many processes that memory is measured in."""
    extent = scaling.Extent(rounds=1, keep=2, steps=2, profiled=(("tiny", TINY),))
    costs = arms.Extent(rounds=1, work=TINY, lengths=(16, 32), decoded=2)
    head = {
        "machine": {"cpu": "a", "features": [], "cores": 2, "memory_gib": 1, "torch": "2", "load_at_start": 0,
                    "load_at_end": 0},
        "date": "2026-01-01",
        "command": "c",
        "minutes": 0,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "peak_bytes", lambda work: 1000 * work.batch)
        patch.setattr(arms, "peak_bytes", lambda work: None)
        return head | scaling.measure(extent), head | arms.measure(costs)


def test_what_the_arms_cost(measured):
    rows = {row["arm"]: row for row in measured[1]["training"]}
    standard, frozen, mixit = rows["standard"], rows["frozen_mlp"], rows["mixit"]
    assert standard["change"] == 0 and standard["fixed"] == 0
    assert frozen["total"] == standard["total"]
    assert frozen["optimizer_bytes"] < standard["optimizer_bytes"]
    assert frozen["checkpoint_bytes"] < standard["checkpoint_bytes"]
    assert mixit["fixed"] == TINY.n_blocks * 4 * 12**2
    for row in measured[1]["decoding"]:
        kept = {"standard": 2, "mixit": 1}[row["arm"]]
        assert row["cache_bytes"] == kept * TINY.n_blocks * row["length"] * TINY.width * 4


def test_the_page_and_the_figures_can_be_made(measured, tmp_path):
    from benchmarks.figures import draw_arms, draw_scaling

    growth, costs = (json.loads(json.dumps(found)) for found in measured)
    text = page(growth, costs, None)
    assert "no GPU was at hand" in text
    assert "−23.9 %" in text and "−32.0 %" in text
    for line in text.splitlines():
        assert len(line) <= 127 or line.startswith(("|", "!"))
    assert draw_scaling(growth, tmp_path / "a.png").stat().st_size > 10_000
    assert draw_arms(costs, tmp_path / "b.png").stat().st_size > 10_000


def test_the_script_for_a_gpu_runs_on_a_cpu(tmp_path, measured):
    out = tmp_path / "gpu.json"
    # In a process of its own: torch.compile stumbles over checked shapes and over warnings that are errors.
    line = [sys.executable, "-m", "benchmarks.gpu", "--smoke", "--out", str(out)]
    subprocess.run(line, capture_output=True, check=True, cwd=Path(__file__).parents[1])
    found = json.loads(out.read_text())
    assert found["card"] == "CPU (smoke)"
    assert not any("failed" in row for row in found["rows"])
    assert "## On a GPU" in page(*measured, found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_the_script_says_so():
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert told.returncode == 1
    assert told.stderr.startswith("no CUDA device is here")

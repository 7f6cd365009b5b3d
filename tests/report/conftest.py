"""Records made by hand: what a run would leave, without the run."""

from collections.abc import Callable
from typing import Any

import pytest

from partwise.records import RunRecord
from partwise.rows import Row

ACCURACY = {"name": "accuracy", "unit": "", "better": "higher", "low": 0.0, "high": 1.0, "perfect": 1.0}
LOSS = {
    "name": "loss",
    "unit": "nat",
    "better": "lower",
    "low": 0.0,
    "high": None,
    "perfect": None,
    "margin": 0.1,
}
BITS = {"name": "bits", "unit": "bit", "better": "higher", "low": 0.0, "high": 4000.0, "perfect": 4000.0}


def make_run(
    architecture: str = "standard",
    seed: int = 0,
    value: float | None = 1.0,
    *,
    task: str = "needle",
    headline: dict[str, Any] = ACCURACY,
    floor: float | None = 0.2,
    gain: float = 0.0,
    status: str = "done",
    steps: int = 100,
    trainable: int = 1000,
    total: int = 1000,
    flops: float = 1e9,
    extra: tuple[Row, ...] = (),
    history: tuple[dict[str, Any], ...] = (),
    matching: str = "steps",
    stopped_early: bool = False,
    detail: str = "",
    **experiment: Any,
) -> RunRecord:
    """One run; `experiment` sets fields by path, with __ for the dots."""
    plain: dict[str, Any] = {
        "task": {"name": task, "n_pairs": 8},
        "model": {"n_blocks": 2, "width": 64},
        "train": {"steps": 100, "lr": 0.01, "decay": "cosine"},
        "seed": seed,
        "init_seed": None,
        "frozen_seed": None,
        "data_seed": None,
    }
    for path, setting in experiment.items():
        *parents, name = path.split("__")
        inner = plain
        for parent in parents:
            inner = inner[parent]
        inner[name] = setting
    rows = [
        Row(where="model", quantity="trainable_parameters", value=trainable, unit="parameter"),
        Row(where="model", quantity="total_parameters", value=total, unit="parameter"),
        Row(where="train", quantity="tokens", value=5000, unit="token"),
        Row(where="train", quantity="flops", value=flops, unit="FLOP"),
    ]
    name, unit = headline["name"], headline["unit"]
    if status == "done" and value is not None:
        rows.append(Row(where="test", quantity=name, value=value, unit=unit, n=4000))
        if headline["perfect"] is not None:
            rows.append(Row(where="test", quantity=f"{name}.ceiling", value=headline["perfect"], unit=unit))
        if floor is not None:
            rows.append(Row(where="test", quantity=f"{name}.floor.guess", value=floor, unit=unit))
            low = floor + 1 if headline["better"] == "lower" else floor / 2
            rows.append(Row(where="test", quantity=f"{name}.floor.worse_guess", value=low, unit=unit))
        rows.append(Row(where="validation", quantity=f"{name}.gain_last_tenth", value=gain))
    return RunRecord(
        digest=f"{task}-{architecture}-{seed}-{sorted(experiment.items())}",
        architecture=architecture,
        matching=matching,
        selection="fixed in advance",
        experiment=plain,
        status=status,
        detail=detail,
        steps=steps,
        stopped_early=stopped_early,
        headline=dict(headline),
        rows=[*rows, *extra],
        history=list(history),
        execution={
            "precision": "float32",
            "threads": 1,
            "environment": {"packages": {"torch": "2.10"}, "machine": "a machine"},
        },
    )


def make_arm(architecture: str, values: list[float], **settings: Any) -> list[RunRecord]:
    """One run a value, with seeds 0, 1, 2 ..."""
    return [make_run(architecture, seed, value, **settings) for seed, value in enumerate(values)]


@pytest.fixture
def run() -> Callable[..., RunRecord]:
    return make_run


@pytest.fixture
def arm() -> Callable[..., list[RunRecord]]:
    return make_arm


@pytest.fixture
def bits() -> dict[str, Any]:
    return BITS


@pytest.fixture
def text(arm) -> Callable[..., list[RunRecord]]:
    """An arm of language modelling: its losses, beside a floor of 3 nats, and the same in bits per byte."""

    def made(architecture: str, losses: list[float], **settings: Any) -> list[RunRecord]:
        records = arm(architecture, losses, task="language_model", headline=LOSS, floor=3.0, **settings)
        for record in records:
            tested = [row for row in record.rows if row.where == "test"]
            names = [row.quantity.replace("loss", "bits_per_byte") for row in tested]
            record.rows += [
                Row(where="test", quantity=name, value=row.value / 2, unit="bit")
                for name, row in zip(names, tested, strict=True)
            ]
        return records

    return made


@pytest.fixture
def study(run, arm) -> list[RunRecord]:
    """Three arms of needle with strata and curves, one run of which diverged, and an arm that failed altogether."""
    curve = tuple({"step": step, "validation": {"accuracy": step / 100}} for step in (0, 50, 100))
    strata = tuple(Row(where=f"test/n_pairs={k}", quantity="accuracy", value=1 / k, n=50) for k in (1, 2, 10))
    records = [
        *arm("standard", [1.0, 0.99, 0.985], extra=strata, history=curve),
        *arm("frozen_qk", [0.99, 0.97, 0.95], history=curve, trainable=800),
        *arm("mixit", [0.21, 0.22, 0.20], extra=strata, history=curve, total=900, flops=0.8e9),
    ]
    lost = {"status": "diverged", "steps": 7, "detail": "diverged at step 7: loss 4e+06"}
    return [*records, run("mixit", 3, **lost), run("frozen_mlp", 0, **lost)]


@pytest.fixture
def memorization(arm, bits):
    """Two arms with three counts of bits, as the task of that name gives them."""

    def counts(whole):
        kinds = ("", "_per_trainable_parameter", "_per_total_parameter")
        return tuple(
            Row(where="test", quantity=f"{name}{kind}", value=whole / (1000 if kind else 1), unit="bit")
            for name in ("bits", "bits_accuracy", "bits_fano")
            for kind in kinds
            if name + kind != "bits"
        )

    settings = {"task": "memorization", "headline": bits, "floor": 200.0, "gain": 0.05}
    return [
        record
        for name, value in (("standard", 2000.0), ("mixit", 1000.0))
        for record in arm(name, [value, value + 10, value + 20], extra=counts(value), **settings)
    ]


@pytest.fixture
def keep_figures(monkeypatch) -> Callable[[Any], list[Any]]:
    """The figures that a module draws from now on, to be looked at."""

    def keep(module: Any) -> list[Any]:
        figures: list[Any] = []
        made = module._figure
        monkeypatch.setattr(module, "_figure", lambda *given: figures.append(made(*given)) or figures[-1])
        return figures

    return keep

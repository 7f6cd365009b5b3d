"""Which precision is faster is timed once and kept."""

import json

import torch
from small import experiment

from partwise.calibration import faster, step_ms
from partwise.execution import Execution
from partwise.experiment import run_folder
from partwise.records import read_json
from partwise.seeds import generator_for
from partwise.sweep import Options, run_all


def test_both_precisions_are_timed_on_copies():
    one = experiment()
    data, model = one.build()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batch = data.sample(8, split="train", generator=generator_for(0, "batch"))
    times = step_ms(model, batch, learn=one.learn, config=one.train, execution=Execution(), seconds=0.01)
    assert set(times) == {"float32", "bfloat16"}
    assert all(spent > 0 for spent in times.values())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_faster_one_is_chosen_and_float32_where_both_are_alike():
    assert faster({"float32": 2.0, "bfloat16": 1.0}) == "bfloat16"
    assert faster({"float32": 1.0, "bfloat16": 2.0}) == "float32"
    assert faster({"float32": 1.0, "bfloat16": 1.0}) == "float32"


def test_auto_is_decided_once_for_a_folder_and_written_down(tmp_path):
    runs = [experiment(train__steps=10, seed=seed) for seed in range(2)]
    (first,) = run_all(runs[:1], tmp_path, options=Options(precision="auto"))
    kept = read_json(run_folder(tmp_path, runs[0]) / "execution.json")
    times = kept["environment"]["step_ms"]
    assert first.execution["precision"] == kept["precision"] == faster(times)
    # As if another machine, or another minute, had decided otherwise: what the folder has is kept.
    other = "bfloat16" if kept["precision"] == "float32" else "float32"
    kept["environment"]["step_ms"][other] = 0.0
    (run_folder(tmp_path, runs[0]) / "execution.json").write_text(json.dumps(kept))
    _, second = run_all(runs, tmp_path, options=Options(precision="auto"))
    assert second.execution["precision"] == other
    assert second.execution["environment"]["step_ms"][other] == 0.0

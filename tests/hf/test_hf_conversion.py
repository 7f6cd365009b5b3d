"""A run to a folder of Hugging Face and back, bit for bit; its card; what is kept as a seed."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from hf_small import causal, tokens
from safetensors.torch import load_file, save_file
from small import experiment
from test_messages import command  # noqa: F401  (a fixture)
from transformers import AutoModelForCausalLM

from partwise import Experiment, PartwiseForCausalLM, load_plugins, load_run, read_records, run, table
from partwise.architectures import architecture
from partwise.configs import from_plain, to_plain
from partwise.errors import ConfigError, DamagedFile
from partwise.experiment import run_folder
from partwise.hf import export_run, from_run, to_run


def asked(name: str, **changes):
    """The small experiment in an architecture."""
    base = experiment(train__steps=2, train__warmup=1, train__validation_size=8, test_size=8, **changes)
    named = architecture(name)
    return dataclasses.replace(base, architecture=name, model=named.model(base.model), learn=named.learn)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run's folder; each is made once."""
    out = tmp_path_factory.mktemp("out")

    def make(name: str, **changes):
        one = asked(name, **changes)
        run(one, out)
        return run_folder(out, one)

    return make


@pytest.mark.parametrize("name", ["standard", "mixit", "frozen_qk", "interleaved", "uniform"])
@pytest.mark.parametrize("as_seed", [False, True], ids=["whole", "as seed"])
def test_a_run_goes_there_and_back_bit_for_bit(name, as_seed, done, tmp_path):
    place = done(name, frozen_seed=9)
    export_run(place, tmp_path / "hf", frozen_as_seed=as_seed)
    _, lab = load_run(place)
    tokens_BL = torch.randint(lab.shape.vocabulary, (4, lab.shape.length))
    assert torch.equal(AutoModelForCausalLM.from_pretrained(tmp_path / "hf")(tokens_BL).logits, lab(tokens_BL))
    assert to_run(tmp_path / "hf", tmp_path / "back") == load_run(place)[0]
    for file in ("model.safetensors", "experiment.json", "record.json"):
        assert (tmp_path / "back" / file).read_bytes() == (place / file).read_bytes(), file
    assert table(read_records(tmp_path / "back")) == table(read_records(place))


def test_a_tied_run_goes_there_and_back(done, tmp_path):
    place = done("standard", model__tied=True)
    export_run(place, tmp_path / "hf")
    to_run(tmp_path / "hf", tmp_path / "back")
    assert (tmp_path / "back/model.safetensors").read_bytes() == (place / "model.safetensors").read_bytes()


def test_the_card_says_task_rule_seeds_scores_and_floors(done, tmp_path):
    place = done("frozen_qk", seed=3, frozen_seed=9)
    export_run(place, tmp_path / "hf")
    record = read_records(place)[0]
    text = (tmp_path / "hf/README.md").read_text()
    assert text.startswith(
        '---\nlibrary_name: transformers\ntags: ["partwise", "frozen_qk", "needle"]\n---\n\n# frozen_qk on needle\n'
    )
    assert "`needle`: n_pairs 2, min_pairs 1, n_values 5" in text
    assert '- rule: `all_but`: patterns ["blocks.*.token_mixer.query", "blocks.*.token_mixer.key"]' in text
    assert "- 7,920 numbers learned, 1,088 stayed as they were drawn, 0 are fixed in buffers" in text
    assert "- seeds: seed 3, frozen_seed 9" in text
    assert "- done after 2 steps" in text
    score, floor = record.value("accuracy"), record.value("accuracy.floor.most_frequent_value")
    (row,) = [line for line in text.splitlines() if line.startswith("| test | accuracy |")]
    assert f"| {score:.4g} |" in row and f"most_frequent_value {floor:.4g}" in row
    assert "PartwiseForCausalLM.from_pretrained" in text


def test_what_never_learned_is_kept_as_a_seed_and_checked(done, tmp_path):
    place = done("frozen_qk", frozen_seed=9)
    export_run(place, tmp_path / "hf", frozen_as_seed=True)
    held = load_file(tmp_path / "hf/model.safetensors")
    assert not [name for name in held if ".query." in name or ".key." in name]
    assert len(held) == len(load_file(place / "model.safetensors")) - 8
    plain = json.loads((tmp_path / "hf/config.json").read_text())
    assert plain["seed"] == 9 and len(plain["frozen_sha256"]) == 64
    (tmp_path / "hf/config.json").write_text(json.dumps(plain | {"seed": 8}))
    with pytest.raises(DamagedFile, match="keeps what never learns as seed 8, and here this draws other tensors"):
        PartwiseForCausalLM.from_pretrained(tmp_path / "hf")
    changed = held | {"model.blocks.0.token_mixer.query.weight": torch.zeros(16, 16)}
    (tmp_path / "hf/config.json").write_text(json.dumps(plain))
    del changed["model.embed.weight"]
    save_file(changed, tmp_path / "hf/model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DamagedFile, match=r"model\.embed\.weight is missing"):
        PartwiseForCausalLM.from_pretrained(tmp_path / "hf")


def test_a_seed_cannot_stand_for_what_it_does_not_draw(tmp_path):
    model = causal("frozen_qk", frozen_as_seed=True)
    model.save_pretrained(tmp_path / "a")
    with torch.no_grad():
        model.model.blocks[1].token_mixer.key.weight[0, 0] += 1
    with pytest.raises(ConfigError, match=r"blocks\.1\.token_mixer\.key\.weight is not what seed 0 draws"):
        model.save_pretrained(tmp_path / "b")
    model.config.frozen_as_seed = False
    model.save_pretrained(tmp_path / "b")
    again = PartwiseForCausalLM.from_pretrained(tmp_path / "b")
    assert torch.equal(again(tokens()).logits, model(tokens()).logits)


def test_a_loaded_seed_in_half_precision_is_the_rounded_draw(tmp_path):
    model = causal("mixit", frozen_as_seed=True)
    model.save_pretrained(tmp_path)
    again = PartwiseForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor.bfloat16()), name
    again.save_pretrained(tmp_path / "b")
    assert PartwiseForCausalLM.from_pretrained(tmp_path / "b").dtype == torch.bfloat16


def test_weights_that_were_trained_on_are_no_run_any_more(done, tmp_path):
    model = export_run(done("standard"), tmp_path / "hf")
    with torch.no_grad():
        model.model.embed.weight[0, 0] += 1
    model.save_pretrained(tmp_path / "hf")
    with pytest.raises(ConfigError, match="holds other weights than its run ended with"):
        to_run(tmp_path / "hf", tmp_path / "back")
    causal().save_pretrained(tmp_path / "other")
    with pytest.raises(ConfigError, match="was not exported from a run"):
        to_run(tmp_path / "other", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_run_on_real_numbers_is_refused(tmp_path):
    load_plugins([Path(__file__).parents[1] / "plugins/linear_regression.py"], start=tmp_path)
    plain = to_plain(experiment()) | {"task": {"name": "linear_regression"}}
    one = from_plain(Experiment, plain)
    run(one, tmp_path / "out")
    with pytest.raises(ConfigError, match="is a run on real numbers"):
        from_run(run_folder(tmp_path / "out", one))


def test_the_verb_goes_both_ways_and_says_what_is_there(command, done, tmp_path):  # noqa: F811
    place = run_folder(tmp_path / "out", asked("standard"))
    shutil.copytree(done("standard"), place)
    code, out, error = command("export out --to hf")
    assert (code, error) == (0, "") and "PartwiseForCausalLM" in out and "hf" in out
    assert (tmp_path / "hf/config.json").is_file()
    code, out, _ = command("export hf --to back")
    assert code == 0 and "back" in out
    assert (tmp_path / "back/model.safetensors").read_bytes() == (place / "model.safetensors").read_bytes()
    shutil.copytree(done("mixit"), place.with_name("other"))
    code, _, error = command("export out --to other")
    assert code == 2 and "out holds 2 runs; name one of out/runs" in " ".join(error.split())
    code, _, error = command("export nothing --to other")
    assert code == 2 and "no finished run is in nothing" in " ".join(error.split())
    code, out, _ = command(f"export out/runs/{place.name} --to seeded --frozen-as-seed")
    assert code == 0 and (tmp_path / "seeded/README.md").is_file()

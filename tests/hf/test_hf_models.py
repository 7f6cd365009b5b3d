"""What transformers does to a model while it builds, saves and loads it, and what must come out all the same."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch

pytest.importorskip("transformers")

from hf_small import LENGTH, MIXERS, NAMES, VOCABULARY, causal, classifier, config, tokens
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from partwise import Only, PartwiseForCausalLM, PartwiseForSequenceClassification, Stages
from partwise.batch import Batch
from partwise.configs import to_plain
from partwise.errors import ConfigError, DamagedFile
from partwise.model import Transformer
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.uniform import Uniform

RELOAD = """
import sys, torch
torch.set_num_threads(1)
torch.manual_seed(12345)
import partwise.hf
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
tokens_BL, found = load_file(sys.argv[1] + "/tokens")["tokens"], {}
for name in sys.argv[2:]:
    model = AutoModelForCausalLM.from_pretrained(f"{sys.argv[1]}/{name}")
    with torch.no_grad():
        found[name] = model(tokens_BL).logits
save_file(found, sys.argv[1] + "/logits")
"""


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory):
    """Logits of every model as another process, with another seed, reads it from its folder."""
    place = tmp_path_factory.mktemp("models")
    save_file({"tokens": tokens()}, place / "tokens")
    for name in NAMES:
        causal(name, seed=5).save_pretrained(place / name)
    subprocess.run([sys.executable, "-c", RELOAD, str(place), *NAMES], check=True, capture_output=True)
    return load_file(place / "logits")


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_the_labs_and_survive_another_process_bit_for_bit(name, reloaded):
    model = causal(name, seed=5)
    lab = Transformer(model.config.model, model.config.shape(), seed=5)
    with torch.no_grad():
        logits_BLV = model(tokens()).logits
        assert torch.equal(logits_BLV, lab(tokens()))
    assert torch.equal(reloaded[name], logits_BLV)


@pytest.mark.parametrize("name", MIXERS)
def test_building_leaves_every_tensor_as_its_part_drew_it(name):
    """`post_init` of transformers would draw all linear maps and embeddings anew."""
    model = causal(name, seed=2)
    lab = Transformer(model.config.model, model.config.shape(), seed=2).state_dict()
    assert {key.removeprefix("model."): tensor for key, tensor in model.state_dict().items()}.keys() == lab.keys()
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, lab[key.removeprefix("model.")]), key


def test_what_was_set_by_hand_stays_when_weights_are_initialised_again():
    model = causal("standard")
    with torch.no_grad():
        model.model.blocks[0].token_mixer.query.weight.normal_(0, 7)
    model.init_weights()
    assert model.model.blocks[0].token_mixer.query.weight.std() > 6


@dataclass(frozen=True, kw_only=True)
class WithBuffer(Uniform):
    """Uniform, with a buffer beside it."""

    persistent: bool = True

    def build(self, size, *, generator):
        mixer = super().build(size, generator=generator)
        scale_D = torch.full((size.width,), 3.0)
        assert scale_D.max() == 3, "a part that looks at what it draws is built on a device that has numbers"
        mixer.register_buffer("scale", scale_D, persistent=self.persistent)
        mixer.register_forward_hook(lambda module, _, y: y * module.scale)
        return mixer


def test_a_buffer_that_no_checkpoint_holds_is_refused_and_another_comes_back(tmp_path):
    """Models are built on the meta device and what is not in the file is left as uninitialised memory."""
    TOKEN_MIXERS.register("with_buffer")(WithBuffer)
    with pytest.raises(ConfigError, match=r"blocks\.0\.token_mixer\.scale is a buffer that no checkpoint would hold"):
        PartwiseForCausalLM(
            config(
                None,
                parts={"width": 16, "token_mixer": {"name": "with_buffer", "persistent": False}},
                hidden_size=16,
                num_attention_heads=None,
            )
        )
    model = causal("with_buffer")
    model.save_pretrained(tmp_path)
    again = PartwiseForCausalLM.from_pretrained(tmp_path)
    assert (again.model.blocks[1].token_mixer.scale == 3).all()
    assert torch.equal(again(tokens()).logits, model(tokens()).logits)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_tied_is_one_tensor_before_and_after(tied, tmp_path):
    model = causal("standard", tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    assert ("model.unembed.weight" in load_file(tmp_path / "model.safetensors")) is not tied
    again = PartwiseForCausalLM.from_pretrained(tmp_path)
    for one in (model, again):
        assert (one.model.unembed.weight is one.model.embed.weight) is tied
        assert one.get_input_embeddings() is one.model.embed and one.get_output_embeddings() is one.model.unembed
    assert torch.equal(again(tokens()).logits, model(tokens()).logits)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_the_vocabulary_may_grow(tied, tmp_path):
    model = causal("standard", tie_word_embeddings=tied)
    before_BLV = model(tokens()).logits
    model.resize_token_embeddings(VOCABULARY + 2)
    model.save_pretrained(tmp_path)
    after_BLV = PartwiseForCausalLM.from_pretrained(tmp_path)(tokens()).logits
    assert after_BLV.shape[-1] == VOCABULARY + 2
    assert torch.equal(after_BLV, model(tokens()).logits)
    torch.testing.assert_close(after_BLV[..., :VOCABULARY], before_BLV)


def changed(folder, change):
    held = load_file(folder / "model.safetensors")
    change(held)
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})


KEY = "model.blocks.0.token_mixer.mix_HLL"


@pytest.mark.parametrize("kind", [PartwiseForCausalLM, AutoModelForCausalLM])
def test_a_checkpoint_that_is_not_whole_is_refused(kind, tmp_path):
    causal().save_pretrained(tmp_path)
    changed(tmp_path, lambda held: held.update(more=torch.zeros(2)))
    with pytest.raises(DamagedFile, match="does not fit this model: more is unexpected"):
        kind.from_pretrained(tmp_path)
    changed(tmp_path, lambda held: (held.pop("more"), held.pop(KEY)))
    with pytest.raises(DamagedFile, match=f"does not fit this model: {KEY} is missing"):
        kind.from_pretrained(tmp_path)
    changed(tmp_path, lambda held: held.update({KEY: torch.zeros(2, 3, 3)}))
    with pytest.raises(DamagedFile, match=f"{KEY}.* is mismatched"):
        kind.from_pretrained(tmp_path, ignore_mismatched_sizes=True)


def test_a_causal_checkpoint_is_no_classifier(tmp_path):
    causal().save_pretrained(tmp_path)
    with pytest.raises(DamagedFile, match=r"model\.unembed\.weight.* is mismatched"):
        PartwiseForSequenceClassification.from_pretrained(tmp_path, num_labels=3, ignore_mismatched_sizes=True)


def test_loading_says_what_it_did_if_asked(tmp_path):
    causal().save_pretrained(tmp_path)
    model, info = PartwiseForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert isinstance(model, PartwiseForCausalLM)
    assert not info["missing_keys"] and not model.training


def test_another_type_of_number_is_the_rounded_draw(tmp_path):
    model = causal()
    model.save_pretrained(tmp_path)
    loaded = PartwiseForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    built = AutoModelForCausalLM.from_config(model.config, dtype=torch.bfloat16)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.bfloat16()), name
        assert torch.equal(built.state_dict()[name], tensor.bfloat16()), name


def test_an_input_longer_than_the_matrix_is_refused_with_the_length_it_was_made_for():
    for model in (causal(), classifier()):
        with pytest.raises(ConfigError, match=f"length {LENGTH + 1}, but this model was made for {LENGTH} at most"):
            model(tokens(length=LENGTH + 1))


@pytest.mark.parametrize("name", MIXERS)
def test_a_classifier_survives_its_file_and_reads_at_the_last_position(name, tmp_path):
    model = classifier(name)
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    logits_BC = model(tokens()).logits
    assert logits_BC.shape == (3, 3)
    assert torch.equal(again(tokens()).logits, logits_BC)
    shape = model.config.shape(3)
    lab = Transformer(model.config.model, shape, seed=0)
    whole_BLC = lab(Batch(tokens_BL=tokens(), targets_BL=tokens()))
    torch.testing.assert_close(logits_BC, whole_BLC[:, -1])


def test_a_classifier_of_tied_parts_has_a_read_out_of_its_own(tmp_path):
    model = classifier("standard", tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    again = PartwiseForSequenceClassification.from_pretrained(tmp_path)
    assert again.model.unembed.weight.shape == (3, 16)
    assert torch.equal(again(tokens()).logits, model(tokens()).logits)


def test_what_the_rule_leaves_out_asks_for_no_gradient_also_after_loading(tmp_path):
    model = causal("frozen_qk")
    model.save_pretrained(tmp_path)
    for one in (model, PartwiseForCausalLM.from_pretrained(tmp_path)):
        still = {name for name, parameter in one.named_parameters() if not parameter.requires_grad}
        part = "model.blocks.{}.token_mixer.{}.{}"
        assert still == {part.format(b, p, k) for b in (0, 1) for p in ("query", "key") for k in ("weight", "bias")}


def test_what_learns_at_any_stage_asks_for_a_gradient():
    stages = Stages((0, Only("unembed")), (5, Only("unembed", "embed")))
    model = causal("standard", learn=to_plain(stages))
    learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert learns == {"model.embed.weight", "model.unembed.weight"}


def test_nothing_that_is_asked_for_is_passed_over():
    with pytest.raises(ConfigError, match="position_ids was given, and PartwiseForCausalLM does not read it"):
        causal()(tokens(), position_ids=torch.arange(LENGTH)[None])
    with pytest.raises(ConfigError, match="output_attentions was given"):
        classifier()(tokens(), output_attentions=True)
    causal()(tokens(), output_attentions=False, position_ids=None)


def test_a_tuple_comes_out_where_one_is_asked_for():
    model = causal()
    loss, logits_BLV = model(tokens(), labels=tokens(), return_dict=False)
    assert loss.ndim == 0 and torch.equal(logits_BLV, model(tokens()).logits)


def test_the_config_file_says_what_the_model_is(tmp_path):
    causal("frozen_qk").save_pretrained(tmp_path)
    plain = json.loads((tmp_path / "config.json").read_text())
    assert plain["model_type"] == "partwise" and plain["architectures"] == ["PartwiseForCausalLM"]
    assert plain["hidden_size"] == 16 and plain["max_position_embeddings"] == LENGTH
    assert plain["parts"]["token_mixer"]["name"] == "attention"
    assert plain["learn"]["name"] == "all_but"


def test_importing_partwise_loads_no_transformers_and_a_name_of_ours_registers_all():
    code = (
        "import sys, partwise\n"
        "assert 'transformers' not in sys.modules\n"
        "partwise.PartwiseConfig\n"
        "from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification\n"
        "config = AutoConfig.for_model('partwise', architecture='mixit')\n"
        "for auto in (AutoModelForCausalLM, AutoModelForSequenceClassification):\n"
        "    print(type(auto.from_config(config)).__name__)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert out == ["PartwiseForCausalLM", "PartwiseForSequenceClassification"]


def test_without_transformers_the_extra_is_named():
    code = (
        "import sys\n"
        "sys.modules['transformers'] = None\n"
        "import partwise\n"
        "try:\n    partwise.PartwiseConfig\n"
        "except ImportError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.startswith("models for Hugging Face need transformers") and 'pip install "partwise[hf]".' in said

"""A part from outside is one file, registered as ours are and held to the same contracts; nothing else is edited."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from partwise import contracts, plugins
from partwise.configs import digest, from_plain, to_plain
from partwise.errors import PluginError, UnknownName
from partwise.evaluation import evaluation_batch, score
from partwise.experiment import Experiment, run
from partwise.joins import JOINS
from partwise.model import ModelConfig, Transformer
from partwise.parts import AllBut
from partwise.probes.mix_entropy import MixEntropy
from partwise.seeds import generator_for
from partwise.shapes import MixerSize, TaskShape
from partwise.tasks import TASKS
from partwise.tasks.needle import Needle
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.train_config import TrainConfig
from partwise.training import fit

HERE = Path(__file__).parent / "plugins"


@pytest.fixture(autouse=True)
def _loaded():
    """The three plug-ins, for one test; conftest.py puts the catalogues back."""
    for name in ("differential_attention", "linear_regression", "concat_join"):
        plugins.load_plugin(HERE / f"{name}.py")


def differential(*, width: int = 32, layer: int = 0, causal: bool = True, **fields):
    size = MixerSize(width=width, length=12, causal=causal, layer=layer, n_layers=4)
    made = TOKEN_MIXERS["differential_attention"](**fields)
    return made.build(size, generator=generator_for(0, "differential")).double()


def test_each_plugin_stands_in_its_catalogue():
    assert "differential_attention" in TOKEN_MIXERS.names()
    assert "linear_regression" in TASKS.names()
    assert "concat" in JOINS.names()
    assert TOKEN_MIXERS.summary("differential_attention").startswith("Differential attention: one softmax map minus")


def test_a_plugin_loads_once_and_a_second_file_of_the_same_name_collides(tmp_path):
    plugins.load_plugin(HERE / "concat_join.py")
    twin = tmp_path / "concat_again.py"
    twin.write_text((HERE / "concat_join.py").read_text())
    with pytest.raises(
        PluginError, match=r"two joins are called 'concat': in \w*concat_join\w* and in \w*concat_again\w*"
    ):
        plugins.load_plugin(twin)


def test_a_plugin_that_takes_a_name_of_ours_is_told_so_when_it_loads(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text((HERE / "concat_join.py").read_text().replace('register("concat")', 'register("add")'))
    with pytest.raises(PluginError, match=r"two joins are called 'add': in partwise\.joins\.add and in \w*mine\w*"):
        plugins.load_plugin(file)
    assert JOINS["add"].__module__ == "partwise.joins.add"


@pytest.mark.parametrize("fields", [{}, {"rope_base": None, "n_heads": 1}, {"head_norm": False}])
def test_differential_attention_keeps_the_contract(fields):
    contracts.check_token_mixer(TOKEN_MIXERS["differential_attention"](**fields))


@pytest.mark.parametrize("fields", [{}, {"noise": 0.5}, {"dimension": 5, "n_pairs": 2}])
def test_linear_regression_keeps_the_contract(fields):
    contracts.check_task(TASKS["linear_regression"](**fields))


def test_the_concatenating_join_keeps_the_contract():
    contracts.check_join(JOINS["concat"]())


def test_probes_apply_to_differential_attention():
    contracts.check_probe(MixEntropy())
    assert any("differential" in name for name, _, _ in contracts._probed(MixEntropy()))


def test_a_plugin_part_goes_into_experiment_digest_and_back():
    made = Experiment(
        task=TASKS["linear_regression"](n_pairs=4),
        model=ModelConfig(token_mixer=TOKEN_MIXERS["differential_attention"](), join=JOINS["concat"]()),
    )
    assert from_plain(Experiment, to_plain(made)) == made
    assert digest(made) != digest(Experiment(task=TASKS["linear_regression"](n_pairs=4)))


@pytest.mark.parametrize(("width", "n_heads"), [(32, 2), (32, 1), (64, 4)])
def test_differential_attention_has_4_width_squared_plus_6_d_parameters(width, n_heads):
    d = width // (2 * n_heads)  # head width of a softmax attention with twice as many heads
    mixer = differential(width=width, n_heads=n_heads)
    assert sum(parameter.numel() for parameter in mixer.parameters()) == 4 * width**2 + 6 * d


def test_lambda_init_follows_the_layer():
    found = [differential(layer=layer).lambda_init for layer in range(4)]
    assert found == pytest.approx([0.2, 0.3555, 0.4707, 0.5561], abs=5e-5)
    shape = TaskShape(length=3, vocabulary=5)
    model = Transformer(ModelConfig(n_blocks=4, token_mixer=TOKEN_MIXERS["differential_attention"]()), shape, seed=0)
    assert [block.token_mixer.lambda_init for block in model.blocks] == found


@torch.no_grad()
@pytest.mark.parametrize("causal", [True, False])
def test_without_lambda_and_norm_it_is_softmax_attention_with_the_first_pair(causal):
    mixer = differential(causal=causal, rope_base=None, head_norm=False, lambda_init=0.0)
    for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
        getattr(mixer, name).zero_()
    x_BLD = torch.randn(3, 7, 32, generator=generator_for(1, "x"), dtype=torch.float64)
    query, key = (
        layer(x_BLD).unflatten(-1, (2, 2, 8))[:, :, :, 0].transpose(1, 2) for layer in (mixer.query, mixer.key)
    )
    value = mixer.value(x_BLD).unflatten(-1, (2, 16)).transpose(1, 2)
    plain = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    expected = mixer.out(plain.transpose(1, 2).flatten(2))
    torch.testing.assert_close(mixer(x_BLD, None), expected, rtol=0, atol=1e-6)
    mixer.lambda_init = 0.3
    assert not torch.allclose(mixer(x_BLD, None), expected, atol=1e-3)


@torch.no_grad()
def test_rows_of_the_differential_mix_sum_to_one_minus_lambda():
    mixer = differential(layer=2)
    seen = []
    mixer.mix.listeners.append(lambda mix: seen.append(mix) or mix)
    mixer(torch.randn(2, 7, 32, generator=generator_for(1, "x"), dtype=torch.float64), None)
    torch.testing.assert_close(seen[0].sum(-1), (1 - mixer.weight()).expand(2, 2, 7))
    assert mixer.weight().item() == pytest.approx(0.4707, abs=0.3)
    assert (seen[0] < 0).any()


def test_swapping_in_differential_attention_leaves_value_and_out_as_they_were():
    shape = TaskShape(length=5, vocabulary=7)
    usual = Transformer(ModelConfig(token_mixer=Attention(bias=False)), shape, seed=0).state_dict()
    other = Transformer(ModelConfig(token_mixer=TOKEN_MIXERS["differential_attention"]()), shape, seed=0).state_dict()
    for part in ("value", "out"):
        address = f"blocks.1.token_mixer.{part}.weight"
        assert torch.equal(usual[address], other[address])


def test_the_concatenating_join_doubles_the_stream_and_its_model_trains():
    data = Needle(n_pairs=2, n_values=5).build(seed=0)
    model = Transformer(
        ModelConfig(width=8, token_mixer=Attention(n_heads=2), join=JOINS["concat"]()), data.shape, seed=0
    )
    widths = [model.embed.embedding_dim]
    for block in model.blocks:
        widths += [block.norm_1.normalized_shape[0], block.norm_2.normalized_shape[0]]
    assert widths == [8, 8, 16, 32, 64]
    assert model.final_norm.normalized_shape[0] == model.unembed.in_features == 128
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    state = fit(model, data, learn=AllBut(), config=TrainConfig(steps=3, batch=16, warmup=0), seed=0)
    assert state.step == 3
    assert not state.diverged
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == before.keys()


def test_bayes_is_exact_with_enough_pairs_and_ridge_with_noise():
    data = TASKS["linear_regression"](dimension=3, n_pairs=4).build(seed=0)
    batch = data.sample(200, split="test", generator=generator_for(0, "b"))
    assert (data.bayes(batch) - batch.targets_BL)[:, -1].abs().max() < 1e-3
    noisy = TASKS["linear_regression"](dimension=3, n_pairs=4, noise=0.5).build(seed=0)
    batch = noisy.sample(50, split="test", generator=generator_for(0, "b"))
    x, y = batch.tokens_BL[0, :-1, :-1].double(), batch.tokens_BL[0, :-1, -1].double()
    w = torch.linalg.solve(x.T @ x + 0.25 * torch.eye(3, dtype=torch.float64), x.T @ y)  # the usual form
    assert noisy.bayes(batch)[0, -1].item() == pytest.approx(
        (batch.tokens_BL[0, -1, :-1].double() @ w).item(), abs=1e-5
    )


def test_the_zero_predictor_errs_as_the_variance_of_y():
    data = TASKS["linear_regression"](dimension=3).build(seed=0)
    batch = data.sample(20_000, split="train", generator=generator_for(0, "b"))
    error = batch.targets_BL[:, -1].square()
    assert error.mean().item() == pytest.approx(3 * 1 / 3, abs=4 * error.std().item() / 20_000**0.5)


def test_a_short_training_on_linear_regression_beats_the_zero_predictor():
    data = TASKS["linear_regression"](dimension=2, n_pairs=8).build(seed=0)
    model = Transformer(ModelConfig(width=32), data.shape, seed=0)
    config = TrainConfig(steps=300, batch=64, lr=3e-3, warmup=30, evaluate_every=300, validation_size=100)
    fit(model, data, learn=AllBut(), config=config, seed=0)
    batch = evaluation_batch(data, "test", n=500, seed=0)
    zero = batch.targets_BL[:, -1].square().mean().item()
    assert score(model, batch).loss < 0.7 * zero


def test_an_experiment_with_real_valued_inputs_runs_whole():
    made = Experiment(
        task=TASKS["linear_regression"](n_pairs=3),
        model=ModelConfig(width=16, token_mixer=Attention(n_heads=2)),
        train=TrainConfig(steps=3, batch=8, validation_size=20),
        probes=(MixEntropy(),),
        test_size=50,
    )
    found = run(made)
    assert found.status == "done"
    assert found.value("squared_error") > 0
    assert found.value("squared_error.floor.zero") > 0
    assert found.value("squared_error.floor.mean") > 0
    assert found.value("squared_error.ceiling") == 0


def test_an_unknown_name_is_offered_a_plugins_name():
    with pytest.raises(UnknownName, match=r"no join is called 'concatt'\. Did you mean 'concat'\?"):
        JOINS["concatt"]

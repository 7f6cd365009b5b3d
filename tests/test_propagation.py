"""The probe `propagation` on streams whose numbers are known, models as drawn, and what is shown of them."""

import math

import pytest
import torch
from test_messages import command  # noqa: F401  (a fixture)
from torch import nn

from partwise.as_drawn import look
from partwise.batch import IGNORE, Batch
from partwise.configs import replaced
from partwise.errors import ConfigError
from partwise.evaluation import loss_sum, predict
from partwise.experiment import run
from partwise.model import ModelConfig, Transformer
from partwise.probes.propagation import Propagation
from partwise.recipes import RECIPES
from partwise.recipes import propagation as recipe
from partwise.records import read_as_drawn
from partwise.report.depth import curves, depth_grids
from partwise.seeds import generator_for
from partwise.shapes import TaskShape
from partwise.tasks.needle import Needle


class Streams(nn.Module):
    """An embedding that is set by hand, and one block that turns each token into the first one."""

    def __init__(self, table_VD):
        super().__init__()
        self.embed = nn.Embedding.from_pretrained(table_VD)
        self.blocks = nn.ModuleList([FirstToken()])

    def forward(self, tokens_BL):
        return self.blocks[0](self.embed(tokens_BL))


class FirstToken(nn.Module):
    def forward(self, x_BLD):
        return x_BLD[:, :1].expand_as(x_BLD)


def measured(model, tokens_BL, lengths_B=None, targets_BL=None):
    targets_BL = torch.full_like(tokens_BL, IGNORE) if targets_BL is None else targets_BL
    batch = Batch(tokens_BL=tokens_BL, targets_BL=targets_BL, lengths_B=lengths_B)
    return {(row.where, row.quantity): row.value for row in Propagation().measure(model, batch)}


def test_known_streams_get_their_known_numbers():
    orthogonal = Streams(torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]]))
    found = measured(orthogonal, torch.tensor([[0, 1, 2]]))
    assert found["embed", "correlation"] == pytest.approx(0)
    assert found["embed", "effective_rank"] == pytest.approx(3)
    assert found["embed", "residual_norm"] == pytest.approx(1)  # entries 2, 0, 0, 0
    assert found["blocks.0", "correlation"] == pytest.approx(1)
    assert found["blocks.0", "covariance"] == pytest.approx(1)
    assert found["blocks.0", "effective_rank"] == pytest.approx(1)

    opposite = Streams(torch.tensor([[3.0, 0.0], [-1.0, 0.0]]))
    found = measured(opposite, torch.tensor([[0, 1]]))
    assert found["embed", "correlation"] == pytest.approx(-1)
    assert found["embed", "covariance"] == pytest.approx(-1.5)


def test_padding_and_single_tokens_make_no_pairs():
    model = Streams(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    tokens = torch.tensor([[0, 1, 2], [2, 0, 0]])
    found = measured(model, tokens, torch.tensor([2, 1]))
    assert found["embed", "correlation"] == pytest.approx(1)  # of the first example alone
    assert ("embed", "correlation") not in measured(model, tokens[:, :1])


def test_the_gradient_is_that_of_the_mean_loss():
    """Against autograd on the unembedding alone: behind the last block nothing else is in the way."""
    data = Needle(n_pairs=3).build(seed=0)
    batch = data.sample(6, split="test", generator=generator_for(0, "few"))
    model = Transformer(ModelConfig(width=16, final_norm="none"), data.shape, seed=0)
    rows = {(row.where, row.quantity): row.value for row in Propagation().measure(model, batch)}
    logits = predict(model, batch).detach().requires_grad_()
    (loss_sum(logits, batch.targets_BL) / len(batch)).backward()
    assert rows["blocks.1", "gradient_norm"] == pytest.approx(
        (logits.grad @ model.unembed.weight).norm().item(), rel=1e-4
    )
    assert rows["embed", "gradient_norm"] > 0
    assert all(parameter.grad is None for parameter in model.parameters())


def test_frozen_models_have_gradients_and_modules_without_blocks_have_none():
    model = Transformer(ModelConfig(width=16), TaskShape(length=5, vocabulary=7), seed=0).requires_grad_(False)
    tokens = torch.randint(7, (2, 5), generator=generator_for(0, "tokens"))
    assert measured(model, tokens, targets_BL=tokens)["embed", "gradient_norm"] > 0
    assert measured(nn.Embedding(7, 7), tokens) == {}
    with pytest.raises(ConfigError, match="n_examples is 0"):
        Propagation(n_examples=0)


def small(label, *, n_blocks=8, width=64):
    one = next(one for one in RECIPES["propagation"]().experiments("quick") if one.architecture == label)
    return replaced(replaced(one, "model.n_blocks", n_blocks), "model.width", width)


def test_what_collapses_and_what_does_not_as_drawn(tmp_path):
    """The table of rank collapse at a size for tests; the published models depend on width, so only clean ones."""
    labels = ("standard (embeddings_only)", "mixit", "uniform", "shaped_attention")
    records = look([small(label) for label in labels], tmp_path)
    found = curves(records, "correlation")
    assert found["standard (embeddings_only)"][8] > found["standard (embeddings_only)"][2] + 0.1
    assert found["uniform"][8] > found["uniform"][2] + 0.1
    assert abs(found["mixit"][8]) < 0.1 and abs(found["shaped_attention"][8]) < 0.1
    ranks = curves(records, "effective_rank")
    assert ranks["mixit"][8] > 1.1 * ranks["uniform"][8]
    assert curves(records, "gradient_norm")["mixit"][8] == 1.0


def test_a_second_look_makes_only_what_is_missing(tmp_path):
    told: list[str] = []
    first = look([small("mixit", n_blocks=2)], tmp_path, tell=told.append)
    again = look([small("mixit", n_blocks=2), small("uniform", n_blocks=2)], tmp_path, jobs=2, tell=told.append)
    assert again[0] == first[0]
    assert [line.split(",")[0] for line in told] == ["mixit", "uniform"]
    assert len(read_as_drawn(tmp_path)) == 2
    assert len(look([small("mixit", n_blocks=2)], tmp_path, fresh=True, tell=told.append)) == 1
    assert len(told) == 3
    grids = depth_grids(first)
    assert grids[0].header == ["architecture", "2 blocks"]


def test_the_depth_of_one_model_serves_all_depths():
    """A model of 8 blocks begins with the model of 2: so one deep model gives the whole curve."""
    deep, shallow = (
        {(row.where, row.quantity): row.value for row in record.rows} for record in (look_at(8), look_at(2))
    )
    for quantity in ("correlation", "effective_rank"):
        assert deep["blocks.1", quantity] == pytest.approx(shallow["blocks.1", quantity], rel=1e-5)


def look_at(n_blocks):
    from partwise.as_drawn import _record
    from partwise.execution import Execution

    return _record(small("mixit", n_blocks=n_blocks), Execution())


def test_quick_shows_a_table_and_a_figure_and_trains_nothing(command, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setattr(recipe, "DEPTH", 2)
    monkeypatch.setattr(recipe, "WIDTH", 64)
    monkeypatch.setattr(recipe, "AS_DRAWN", {name: recipe.AS_DRAWN[name] for name in ("standard_published", "mixit")})
    code, out, error = command("reproduce propagation --out out --dry-run")
    assert code == 0, error
    assert "2 models are looked at as they are drawn; none is trained" in out
    assert not (tmp_path / "out").exists()
    code, out, error = command("reproduce propagation --out out --jobs 1")
    assert code == 0, error
    assert "mean correlation of two tokens" in out and "effective rank of the tokens" in out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"table.md", "table.txt", "figure.png", "as_drawn"}
    assert "2 models as drawn, none trained" in (tmp_path / "out" / "table.md").read_text()


def test_small_asks_both_tasks_at_four_depths_and_its_probe_is_recorded():
    arms = RECIPES["propagation"]().experiments("small")
    assert {one.model.n_blocks for one in arms} == {2, 4, 8, 16}
    assert {one.arm for one in arms} == {
        "embeddings_only",
        *(f"embeddings_only, mixing of {heads} heads" for heads in (4, 16, 64)),
    }
    one = next(one for one in arms if one.arm == "embeddings_only, mixing of 4 heads" and one.model.n_blocks == 2)
    for path, value in {"train.steps": 2, "train.batch": 8, "train.validation_size": 8, "test_size": 8}.items():
        one = replaced(one, path, value)
    record = run(one)
    ranks = [row for row in record.rows if row.quantity == "effective_rank"]
    assert [row.where for row in ranks] == ["embed", "blocks.0", "blocks.1"]
    assert all(row.step == 2 and math.isfinite(row.value) for row in ranks)
    assert list(curves([record], "correlation")) == ["embeddings_only, mixing of 4 heads, step 2"]

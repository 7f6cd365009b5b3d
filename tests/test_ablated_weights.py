"""Ablations: what each does to a matrix of known components, and that the model is whole again whatever happens."""

import pytest
import torch

from partwise.ablations import ablated
from partwise.ablations.drop import Drop
from partwise.ablations.keep_bottom import KeepBottom
from partwise.ablations.keep_top import KeepTop
from partwise.ablations.random_truncation import RandomTruncation
from partwise.ablations.remove_component import RemoveComponent
from partwise.ablations.same_norm_noise import SameNormNoise
from partwise.configs import from_plain, to_plain
from partwise.errors import ConfigError, UnknownAddress
from partwise.probes.recall import Recall
from partwise.seeds import generator_for
from partwise.tasks.needle import Needle

SIZES = (9.0, 5.0, 3.0, 1.0)


def matrix(rows=6, columns=4):
    """With the singular values 9, 5, 3, 1."""
    generator = generator_for(0, "matrix")
    u = torch.linalg.qr(torch.randn(rows, 4, generator=generator, dtype=torch.float64))[0]
    v = torch.linalg.qr(torch.randn(columns, 4, generator=generator, dtype=torch.float64))[0]
    return (u * torch.tensor(SIZES, dtype=torch.float64)) @ v.T


def sizes_after(ablation, weight=None):
    edited = ablation.edited(matrix() if weight is None else weight, generator=generator_for(0, "edit"))
    return [round(size, 6) for size in torch.linalg.svdvals(edited).tolist()]


@pytest.mark.parametrize(
    ("ablation", "left"),
    [
        (KeepTop(rank=2), [9, 5, 0, 0]),
        (KeepTop(share=0.5), [9, 5, 0, 0]),
        (KeepTop(share=0.74), [9, 5, 0, 0]),
        (KeepTop(rank=0), [0, 0, 0, 0]),
        (KeepTop(rank=99), [9, 5, 3, 1]),
        (KeepTop(share=0.0), [0, 0, 0, 0]),
        (KeepBottom(rank=1), [1, 0, 0, 0]),
        (KeepBottom(share=0.75), [5, 3, 1, 0]),
        (KeepBottom(rank=0), [0, 0, 0, 0]),
        (RemoveComponent(component=0), [5, 3, 1, 0]),
        (RemoveComponent(component=2), [9, 5, 1, 0]),
        (RemoveComponent(component=-1), [9, 5, 3, 0]),
        (Drop(), [0, 0, 0, 0]),
    ],
)
def test_components_are_kept_and_taken_as_the_name_says(ablation, left):
    assert sizes_after(ablation) == left
    assert sizes_after(ablation, matrix(4, 7)) == left


def test_top_and_bottom_make_up_the_whole():
    weight, generator = matrix(), generator_for(0, "edit")
    parts = [kind(rank=2).edited(weight, generator=generator) for kind in (KeepTop, KeepBottom)]
    assert torch.allclose(sum(parts), weight)


def test_random_truncation_keeps_as_many_of_the_matrix_own_components():
    kept = set()
    for seed in range(40):
        edited = RandomTruncation(rank=2).edited(matrix(), generator=generator_for(seed, "random"))
        left = tuple(round(size, 6) for size in torch.linalg.svdvals(edited).tolist() if size > 1e-9)
        assert len(left) == 2
        kept.add(left)
    assert kept == {(9, 5), (9, 3), (9, 1), (5, 3), (5, 1), (3, 1)}


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_noise_is_as_large_as_what_truncation_takes_away(rank):
    weight, generator = matrix(), generator_for(0, "noise")
    moved = (SameNormNoise(rank=rank).edited(weight, generator=generator) - weight).norm()
    taken = (KeepTop(rank=rank).edited(weight, generator=generator) - weight).norm()
    assert moved.item() == pytest.approx(taken.item())
    assert taken.item() == pytest.approx(sum(size**2 for size in SIZES[rank:]) ** 0.5)


def model_and_batch():
    from partwise.model import ModelConfig, Transformer

    data = Needle(n_pairs=3, n_values=5).build(seed=0)
    return Transformer(ModelConfig(width=16), data.shape, seed=0), data.sample(
        8, split="test", generator=generator_for(0, "ablated")
    )


def test_dropping_a_mixer_is_a_block_without_it():
    model, batch = model_and_batch()
    with torch.no_grad():
        with ablated(model, Drop(pattern="blocks.1.channel_mixer")) as names:
            without = model(batch)
        assert {name.split(".")[3] for name in names} == {"gate", "up", "down"}
        model.blocks[1].channel_mixer = None
        assert torch.equal(without, model(batch))


def test_two_edits_follow_one_another_and_both_are_undone():
    model, _ = model_and_batch()
    weight = model.unembed.weight
    before = weight.detach().clone()
    with ablated(model, KeepTop(pattern="unembed", rank=3), RemoveComponent(pattern="unembed", component=0)):
        assert torch.linalg.matrix_rank(weight.detach(), atol=1e-4) == 2
    assert torch.equal(weight, before)


def test_an_edit_that_raises_halfway_leaves_nothing_behind():
    model, _ = model_and_batch()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with (
        pytest.raises(ConfigError, match="component=99: this matrix has 16"),
        ablated(model, Drop(pattern="embed"), RemoveComponent(pattern="blocks.0", component=99)),
    ):
        raise AssertionError("never entered")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_probe_that_is_left_halfway_leaves_the_model_whole():
    model, batch = model_and_batch()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rows = Recall(edits=(Drop(pattern="blocks.0.channel_mixer"),)).measure(model, batch)
    while next(rows).where == "test/under=whole":
        pass
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.is_grad_enabled()


def test_a_pattern_that_names_nothing_is_told_with_the_nearest():
    model, _ = model_and_batch()
    with (
        pytest.raises(UnknownAddress, match=r"Nearest: blocks\.0\.channel_mixer"),
        ablated(model, Drop(pattern="blocks.0.chanel_mixer")),
    ):
        pass


@pytest.mark.parametrize("wrong", [{"rank": -1}, {"share": 1.5}, {"share": -0.1}])
@pytest.mark.parametrize("kind", [KeepTop, KeepBottom, RandomTruncation, SameNormNoise])
def test_an_impossible_rank_is_told(kind, wrong):
    with pytest.raises(ConfigError, match="was expected"):
        kind(**wrong)


def test_edits_travel_as_plain_data_inside_a_probe():
    probe = Recall(noise=0, edits=(KeepTop(pattern="embed", rank=2), Drop(pattern="unembed")), coin=True)
    fields = {name: value for name, value in to_plain(probe).items() if name != "name"}
    assert from_plain(Recall, fields) == probe

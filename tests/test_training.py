"""What the loop promises: rates in closed form, frozen bits, fresh moments, exact pieces, divergence, early stop."""

import itertools
import math

import pytest
import torch
from small import experiment
from torch import nn

from partwise import updates
from partwise.checkpoint import weights
from partwise.errors import ConfigError, UnknownAddress
from partwise.evaluation import predict
from partwise.parts import AllBut, Only, Stages
from partwise.seeds import generator_for
from partwise.token_mixers import TOKEN_MIXERS
from partwise.train_config import PartRate, TrainConfig
from partwise.training import fit
from partwise.updates import backward, optimizer_for

QK = ("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")


def trained(learn=AllBut(), **changes):
    one = experiment(**changes)
    data, model = one.build()
    start = {name: tensor.clone() for name, tensor in weights(model).items()}
    state = fit(model, data, learn=learn, config=one.train, seed=0)
    return start, weights(model), state


@pytest.mark.parametrize("decay", ["cosine", "linear", "constant"])
def test_the_logged_rate_is_the_closed_form(decay):
    _, _, state = trained(train__decay=decay, train__steps=40, train__warmup=10, train__lr=0.02)
    for entry in state.history:
        t = entry["step"] - 1
        done = max(0, t - 10) / 30
        shape = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1}[decay]
        assert entry["rate"] == pytest.approx(0.02 * min(1, (t + 1) / 10) * shape, rel=1e-12)


def test_every_optimizer_group_follows_the_rate_with_its_own_peak():
    one = experiment(train__lr=0.01, train__warmup=4)
    _, model = one.build()
    parts = (PartRate(pattern="embed", lr=0.1, weight_decay=0.5), PartRate(pattern="blocks.0.norm_1", weight_decay=0.3))
    config = TrainConfig(steps=20, lr=0.01, warmup=4, parts=parts)
    optimizer = optimizer_for(model, AllBut().learning(model), config)
    of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    names = dict(model.named_parameters())
    assert of[id(names["embed.weight"])]["peak"] == 0.1
    assert of[id(names["embed.weight"])]["weight_decay"] == 0.5
    assert of[id(names["blocks.0.norm_1.weight"])]["weight_decay"] == 0.3
    assert of[id(names["blocks.0.norm_1.weight"])]["peak"] == 0.01
    assert of[id(names["blocks.0.token_mixer.query.bias"])]["weight_decay"] == 0.0
    assert of[id(names["blocks.0.token_mixer.query.weight"])]["weight_decay"] == 0.001


def test_the_rate_of_a_part_that_is_not_there_is_an_error():
    with pytest.raises(UnknownAddress, match="Nearest: embed"):
        trained(train__parts=(PartRate(pattern="embedd", lr=0.1),))


@pytest.mark.parametrize(
    "frozen", [QK, ("blocks.*.channel_mixer",), ("embed", "unembed"), ("blocks.*.norm_1",), ("blocks.0",)]
)
def test_what_is_frozen_stays_bit_for_bit_under_a_large_decay(frozen):
    start, end, _ = trained(AllBut(*frozen), train__weight_decay=0.5, train__steps=50)
    _, model = experiment().build()
    learns = AllBut(*frozen).learning(model)
    for name in start:
        assert torch.equal(start[name], end[name]) == (name not in learns), name


def test_only_what_is_named_moves():
    start, end, _ = trained(Only("blocks.1.token_mixer.value"), train__weight_decay=0.5)
    moved = {name for name in start if not torch.equal(start[name], end[name])}
    assert moved == {"blocks.1.token_mixer.value.weight", "blocks.1.token_mixer.value.bias"}


def test_the_optimizer_holds_only_what_learns():
    _, model = experiment().build()
    learning = AllBut(*QK).learning(model)
    optimizer = optimizer_for(model, learning, TrainConfig())
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for name, p in model.named_parameters() if name in learning}
    assert all(p.requires_grad == (name in learning) for name, p in model.named_parameters())


def stepped(model, optimizer, one, data, step):
    batch = data.sample(16, split="train", generator=generator_for(0, f"train/{step}"))
    backward(model, batch, pieces=1, device=torch.device("cpu"), precision="float32")
    optimizer.step()
    optimizer.zero_grad()


def test_a_part_that_begins_to_learn_starts_with_fresh_moments_and_the_rest_keeps_its_own():
    one = experiment()
    data, model = one.build()
    names = dict(model.named_parameters())
    query, value = names["blocks.0.token_mixer.query.weight"], names["blocks.0.token_mixer.value.weight"]
    first = optimizer_for(model, AllBut(*QK).learning(model), one.train)
    for step in range(3):
        stepped(model, first, one, data, step)
    before = query.detach().clone()
    second = optimizer_for(model, AllBut().learning(model), one.train, before=first)
    assert query not in second.state
    assert second.state[value]["step"].item() == 3
    second.param_groups[0]["lr"] = 1e-3
    stepped(model, second, one, data, 3)
    assert second.state[query]["step"].item() == 1
    assert second.state[value]["step"].item() == 4
    # Bias correction from the step of unfreezing: Adam's first update is the rate times the sign of the gradient.
    group = next(g for g in second.param_groups if any(p is query for p in g["params"]))
    update = (query.detach() - before * (1 - group["lr"] * group["weight_decay"])).abs()
    assert update.median().item() == pytest.approx(group["lr"], rel=0.02)


def test_a_part_that_stops_loses_its_moments():
    one = experiment()
    data, model = one.build()
    query = dict(model.named_parameters())["blocks.0.token_mixer.query.weight"]
    first = optimizer_for(model, AllBut().learning(model), one.train)
    stepped(model, first, one, data, 0)
    second = optimizer_for(model, AllBut(*QK).learning(model), one.train, before=first)
    assert query in first.state
    assert query not in second.state
    assert query.grad is None


def test_stages_freeze_and_unfreeze_at_their_steps():
    one = experiment(train__steps=20, train__weight_decay=0.5)
    rule = Stages((0, AllBut(*QK)), (8, AllBut()), (15, Only("unembed")))
    data, model = one.build()
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def watch(progress):
        seen[progress.step] = {name: tensor.clone() for name, tensor in weights(model).items()}

    fit(model, data, learn=rule, config=one.train, seed=0, watch=watch)
    query, value = "blocks.0.token_mixer.query.weight", "blocks.0.token_mixer.value.weight"
    start = weights(one.build()[1])
    assert torch.equal(seen[8][query], start[query])
    assert not torch.equal(seen[9][query], start[query])
    assert torch.equal(seen[15][value], seen[20][value])
    assert torch.equal(seen[15][query], seen[20][query])
    assert not torch.equal(seen[15]["unembed.weight"], seen[20]["unembed.weight"])


def test_the_gradient_is_clipped_over_what_learns_now():
    _, _, whole = trained(train__clip=None)
    _, _, part = trained(Only("unembed"), train__clip=None)
    assert part.history[0]["gradient_norm"] < whole.history[0]["gradient_norm"]


@pytest.mark.parametrize("pieces", [2, 3, 16])
def test_accumulated_pieces_give_the_gradient_of_the_large_batch(pieces):
    one = experiment()
    data, model = one.build()
    model.double()
    batch = data.sample(16, split="train", generator=generator_for(0, "batch"))
    # Rows with no scored position, so that pieces differ in how many they score.
    batch.targets_BL[:5] = -100

    def gradients(n):
        model.zero_grad()
        loss = backward(model, batch, pieces=n, device=torch.device("cpu"), precision="float32")
        return loss, [p.grad.clone() for p in model.parameters()]

    (loss, whole), (again, parts) = gradients(1), gradients(pieces)
    assert again == pytest.approx(loss, rel=1e-6)  # the loss itself is summed in float32
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("mixer", TOKEN_MIXERS.names())
def test_packed_rows_give_the_gradient_of_the_padded_batch(mixer, two_way):
    one = experiment(model__token_mixer={"name": mixer}, model__two_way=two_way, task__n_pairs=6, task__n_values=9)
    data, model = one.build()
    model.double()
    batch = data.sample(40, split="train", generator=generator_for(0, "batch"))
    assert len(batch.lengths_B.unique()) > 3

    def gradients(groups):
        model.zero_grad()
        loss = backward(model, batch, pieces=1, device=torch.device("cpu"), precision="float32", groups=groups)
        return loss, [p.grad.clone() for p in model.parameters()]

    (loss, whole), *packed = gradients(0), gradients(1), gradients(3)
    for again, parts in packed:
        assert again == pytest.approx(loss, rel=1e-6)  # the loss itself is summed in float32
        for a, b in zip(whole, parts, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-9)


def test_anybodys_module_gets_the_rows_as_they_were_drawn():
    data, _ = experiment().build()
    seen = []

    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(data.shape.vocabulary))

        def forward(self, tokens_BL):
            seen.append(tokens_BL.shape)
            return self.weight.expand(*tokens_BL.shape, -1)

    batch = data.sample(12, split="train", generator=generator_for(0, "batch"))
    backward(Own(), batch, pieces=1, device=torch.device("cpu"), precision="float32")
    assert seen == [batch.tokens_BL.shape]


def test_the_loss_is_the_mean_over_scored_positions_only():
    one = experiment()
    data, model = one.build()
    batch = data.sample(8, split="train", generator=generator_for(0, "batch"))
    loss = backward(model, batch, pieces=1, device=torch.device("cpu"), precision="float32")
    logits = predict(model, batch)
    by_hand = [-logits[b, at].log_softmax(-1)[batch.targets_BL[b, at]] for b, at in enumerate(batch.marks["answer"])]
    assert loss == pytest.approx(torch.stack(by_hand).mean().item(), rel=1e-5)


def test_a_rate_of_a_million_diverges_is_noticed_and_stops():
    _, _, state = trained(train__lr=1e6, train__warmup=0, train__steps=200)
    assert state.diverged.startswith("diverged at step ")
    assert state.step < 200


def test_a_loss_that_is_no_number_stops_the_run_before_the_weights_are_touched():
    one = experiment()
    data, model = one.build()
    with torch.no_grad():
        model.unembed.weight[0, 0] = float("nan")
    start = {name: tensor.clone() for name, tensor in weights(model).items()}
    state = fit(model, data, learn=AllBut(), config=one.train, seed=0)
    assert state.step == 0
    assert "diverged at step 0" in state.diverged
    assert all(torch.equal(start[n], t) for n, t in weights(model).items() if n != "unembed.weight")


def test_it_stops_when_solved_on_validation_twice():
    changes = {"train__steps": 600, "train__lr": 1e-2, "train__evaluate_every": 20, "train__batch": 64}
    _, _, state = trained(train__stop_when_solved=True, **changes)
    scored = [entry["validation"]["solved"] for entry in state.history if "validation" in entry]
    assert state.stopped_early
    assert state.step < 600
    assert scored[-2:] == [True, True]
    assert not any(a and b for a, b in itertools.pairwise(scored[:-1]))


def test_validation_is_scored_at_nine_tenths_and_at_the_end():
    for steps in (7, 30, 33, 100):
        config = TrainConfig(steps=steps)
        at = [step for step in range(1, steps + 1) if config.evaluates(step)]
        assert at[-1] == steps
        assert len(at) == min(10, steps)
        assert math.ceil(0.9 * steps) in at


@pytest.mark.parametrize(
    ("field", "value"),
    [("steps", 0), ("batch", 0), ("lr", 0.0), ("lr", float("nan")), ("accumulate", 999), ("warmup", -1)],
)
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ConfigError, match=field):
        TrainConfig(**{field: value})


def test_a_users_module_keeps_its_own_grad_flags():
    one = experiment()
    data, _ = one.build()
    module = nn.Sequential(nn.Embedding(data.shape.vocabulary, 8), nn.Linear(8, data.shape.vocabulary))
    module[0].weight.requires_grad_(False)
    before = module[0].weight.clone()
    fit(module, data, learn=AllBut("0"), config=one.train, seed=0)
    assert torch.equal(before, module[0].weight)
    assert [p.requires_grad for p in module.parameters()] == [False, True, True]


def test_a_users_dropout_does_not_disturb_the_global_generator():
    one = experiment()
    data, _ = one.build()
    module = nn.Sequential(nn.Embedding(data.shape.vocabulary, 8), nn.Dropout(0.5), nn.Linear(8, data.shape.vocabulary))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(module, data, learn=AllBut(), config=one.train, seed=0)
    assert torch.equal(torch.rand(3), expected)


def test_bfloat16_arithmetic_learns_too_and_leaves_float32_weights():
    one = experiment(train__steps=60, train__lr=1e-2)
    losses = {}
    for precision in ("float32", "bfloat16"):
        data, model = one.build()
        state = fit(model, data, learn=AllBut(), config=one.train, seed=0, precision=precision)
        losses[precision] = state.history[-1]["loss"]
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.1)


def test_a_part_with_its_own_rate_moves_as_a_hand_rolled_adamw_would():
    one = experiment(train__steps=3, train__warmup=2, train__lr=0.01, train__clip=None)
    config = TrainConfig(
        steps=3, warmup=2, lr=0.01, clip=None, batch=16, parts=(PartRate(pattern="embed", lr=0.05, weight_decay=0.2),)
    )
    data, model = one.build()
    _, twin = one.build()
    fit(model, data, learn=Only("embed", "unembed"), config=config, seed=0)
    parameters = {"embed.weight": (0.05, 0.2), "unembed.weight": (0.01, config.weight_decay)}
    held = {name: p for name, p in twin.named_parameters() if name in parameters}
    first = {name: torch.zeros_like(p) for name, p in held.items()}
    second = {name: torch.zeros_like(p) for name, p in held.items()}
    for step in range(3):
        batch = data.sample(16, split="train", generator=generator_for(0, f"train/{step}"))
        twin.zero_grad()
        backward(twin, batch, pieces=1, device=torch.device("cpu"), precision="float32")
        for name, p in held.items():
            peak, decay = parameters[name]
            rate = peak * config.rate(step)
            first[name] = 0.9 * first[name] + 0.1 * p.grad
            second[name] = 0.999 * second[name] + 0.001 * p.grad**2
            corrected = first[name] / (1 - 0.9 ** (step + 1))
            spread = (second[name] / (1 - 0.999 ** (step + 1))).sqrt()
            with torch.no_grad():
                p.mul_(1 - rate * decay).sub_(rate * corrected / (spread + 1e-8))
    for name, p in model.named_parameters():
        torch.testing.assert_close(p, twin.get_parameter(name), rtol=1e-4, atol=1e-6)


def test_clipping_scales_the_gradient_of_what_learns_to_the_norm_that_was_asked_for(monkeypatch):
    seen = []
    step = torch.optim.AdamW.step

    def watched(self, *args, **kwargs):
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        seen.append(torch.stack([g.norm() for g in gradients]).norm().item())
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    trained(Only("unembed"), train__clip=0.01, train__steps=5)
    assert seen == pytest.approx([0.01] * 5, rel=1e-3)
    seen.clear()
    trained(Only("unembed"), train__clip=None, train__steps=5)
    assert min(seen) > 0.02


def test_an_entry_of_the_history_is_the_mean_of_the_losses_since_the_last():
    _, _, every = trained(train__steps=200)
    _, _, again = trained(train__steps=200, train__evaluate_every=200)
    assert [entry["step"] for entry in every.history] == list(range(2, 201, 2))
    one = experiment(train__steps=200)
    data, model = one.build()
    losses = []
    real = updates.backward

    def noted(*args, **kwargs):
        losses.append(real(*args, **kwargs))
        return losses[-1]

    updates.backward = noted
    try:
        state = fit(model, data, learn=AllBut(), config=one.train, seed=0)
    finally:
        updates.backward = real
    expected = [sum(losses[i : i + 2]) / 2 for i in range(0, 200, 2)]
    assert [entry["loss"] for entry in state.history] == pytest.approx(expected, rel=1e-12)
    assert again.history[-1]["loss"] == every.history[-1]["loss"]


def test_a_loss_that_explodes_and_stays_finite_is_a_divergence():
    one = experiment(train__lr=1e3, train__warmup=0, train__steps=50, train__decay="constant", train__clip=None)
    data, model = one.build()
    state = fit(model, data, learn=AllBut(), config=one.train, seed=0)
    loss = float(state.diverged.split("loss ")[1].split(",")[0])
    assert math.isfinite(loss)
    assert loss > 1000


def test_a_divergence_in_the_last_update_is_one():
    one = experiment(train__steps=1, train__lr=1e38, train__warmup=0)
    data, model = one.build()
    state = fit(model, data, learn=AllBut(), config=one.train, seed=0)
    assert state.diverged


@pytest.mark.parametrize(
    "made",
    [
        lambda: TrainConfig(clip=-1),
        lambda: TrainConfig(clip=0),
        lambda: TrainConfig(weight_decay=-1),
        lambda: TrainConfig(weight_decay=math.nan),
        lambda: TrainConfig(betas=(0.9, 1.0)),
        lambda: TrainConfig(eps=-1),
        lambda: PartRate(pattern="embed", lr=-1),
        lambda: PartRate(pattern="embed", weight_decay=math.inf),
    ],
)
def test_what_would_train_nothing_or_the_wrong_way_is_refused(made):
    with pytest.raises(ConfigError):
        made()


def test_a_frozen_parameter_may_hold_infinities():
    class Masked(nn.Module):
        def __init__(self, vocabulary):
            super().__init__()
            self.table, self.head = nn.Embedding(vocabulary, 8), nn.Linear(8, vocabulary)
            self.mask = nn.Parameter(torch.full((3,), -math.inf))

        def forward(self, tokens):
            return self.head(self.table(tokens))

    one = experiment()
    data, _ = one.build()
    state = fit(Masked(data.shape.vocabulary), data, learn=AllBut("mask"), config=one.train, seed=0)
    assert not state.diverged


def test_a_validation_loss_that_is_no_number_at_the_end_is_a_divergence():
    one = experiment(train__steps=1, train__lr=1e20, train__warmup=0)
    data, model = one.build()
    assert fit(model, data, learn=AllBut(), config=one.train, seed=0).diverged


def test_a_frozen_batch_norm_keeps_its_running_mean_and_one_that_learns_moves_it():
    class Normed(nn.Module):
        def __init__(self, vocabulary):
            super().__init__()
            self.table, self.bn, self.head = nn.Embedding(vocabulary, 8), nn.BatchNorm1d(8), nn.Linear(8, vocabulary)

        def forward(self, tokens):
            return self.head(self.bn(self.table(tokens).mT).mT)

    one = experiment()
    data, _ = one.build()
    for learn, moves in ((AllBut("bn"), False), (AllBut(), True)):
        module = Normed(data.shape.vocabulary)
        fit(module, data, learn=learn, config=one.train, seed=0)
        assert bool(module.bn.running_mean.any()) == moves
        assert module.bn.training

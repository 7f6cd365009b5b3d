"""What the laws are made of: models and inputs to try a part on, and what may be required of it."""

import copy
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from partwise import configs
from partwise.ablations import ABLATIONS
from partwise.batch import IGNORE, Batch
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.corpora import CORPORA
from partwise.encoders import ENCODERS
from partwise.errors import ConfigError
from partwise.joins import JOINS
from partwise.model import BlockConfig, ModelConfig, Transformer
from partwise.probes import PROBES
from partwise.registry import Registry
from partwise.seeds import generator_for
from partwise.shapes import MixerSize, TaskShape
from partwise.tasks import TASKS
from partwise.token_mixers import TOKEN_MIXERS

WIDTH, LENGTH, VOCABULARY = 32, 11, 7
EXACT = 1e-9  # in float64; what two ways of computing one thing may differ by
DRAWN = 1e-6  # the same, where a matrix that was drawn in float32 is centred anew

Law = Callable[[Any], None]


def it_survives_plain_data(config: Any) -> None:
    """The config is a frozen dataclass that its registered name and fields bring back."""
    _require_plain(_registry_of(config), config)


def require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def require_equal(found: Tensor, expected: Tensor, sentence: str, *, within: float = EXACT) -> None:
    """Equal up to rounding; the text ends in the largest difference."""
    difference = (found - expected).abs().max().item() if found.numel() else 0.0
    require(difference <= within * max(1.0, expected.abs().max().item()), f"{sentence}, by up to {difference:.2g}.")


def name_of(config: Any) -> str:
    return vars(type(config)).get("registered_name") or type(config).__name__


def _registry_of(config: Any) -> Registry | None:
    """The catalogue that the config is registered in, if any."""
    every = (TOKEN_MIXERS, CHANNEL_MIXERS, JOINS, TASKS, PROBES, ABLATIONS, CORPORA, ENCODERS)
    return next((registry for registry in every if type(config) in registry), None)


def normal(*shape: int, of: str = "x") -> Tensor:
    return torch.randn(*shape, generator=generator_for(0, f"{of} {shape}"), dtype=torch.float64)


def lengths_down(n: int, length: int) -> Tensor:
    """n lengths from full down to 1."""
    return torch.linspace(length, 1, n).round().long()


def reads(n: int, length: int, lengths_B: Tensor | None) -> Tensor:
    """Five positions in use for each row, out of order and some of them twice."""
    used_B1 = torch.full((n, 1), length) if lengths_B is None else lengths_B[:, None]
    place_B5 = (torch.rand(n, 5, generator=generator_for(0, "read")) * used_B1).long()
    place_B5[:, 0], place_B5[:, 1], place_B5[:, 2] = used_B1[:, 0] - 1, 0, used_B1[:, 0] - 1
    return place_B5


def token_batch(n: int, length: int, *, lengths: bool = False) -> Batch:
    tokens_BL = torch.randint(VOCABULARY, (n, length), generator=generator_for(0, "tokens"))
    return batch_of(tokens_BL, lengths_down(n, length) if lengths else None)


def batch_of(tokens_BL: Tensor, lengths_B: Tensor | None) -> Batch:
    nothing_BL = torch.full(tokens_BL.shape[:2], IGNORE)
    return Batch(tokens_BL=tokens_BL, targets_BL=nothing_BL, lengths_B=lengths_B)


def size_of(*, causal: bool = True, width: int = WIDTH) -> MixerSize:
    return MixerSize(width=width, length=LENGTH, causal=causal, layer=1, n_layers=3)


@torch.no_grad()
def stirred(module: nn.Module) -> nn.Module:
    """In float64, ready to be evaluated, and every parameter moved, so that a start at zero hides nothing."""
    module.double().eval()
    for name, parameter in module.named_parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator_for(1, name), dtype=torch.float64), alpha=0.1)
    return module


def models_with(*, seed: int = 0, **slot: Any) -> Iterator[tuple[str, bool, Transformer]]:
    """Two-block models, causal and two-way, with the slot filled."""
    shape = TaskShape(length=LENGTH, vocabulary=VOCABULARY)
    for two_way in (False, True):
        try:
            model = Transformer(ModelConfig(width=WIDTH, two_way=two_way, **slot), shape, seed=seed)
        except ConfigError:  # a way it cannot be built; `_token_mixers` sees that there is one
            continue
        name = name_of(next(iter(slot.values())))
        stirred(model)
        yield f"{name} ({'two-way' if two_way else 'causal'})", not two_way, model


def require_gradients(name: str, module: nn.Module, *inputs: Tensor | None) -> None:
    module.zero_grad()
    out = module(*inputs)
    if out.requires_grad:
        (out**2).sum().backward()
    for address, parameter in module.named_parameters():
        grad = parameter.grad
        if grad is None or not grad.isfinite().all():
            raise AssertionError(f"{name}: no finite gradient reaches {address}.")
        # a key's bias shifts every score of a row alike, so only matrices must feel something
        felt = parameter.ndim < 2 or bool(grad.any())
        require(felt, f"{name}: the gradient of {address} is zero throughout.")


def require_pure(name: str, module: nn.Module, *also: None) -> None:
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    with torch.no_grad():
        first = module(normal(2, LENGTH, WIDTH), *also)
        module(normal(3, LENGTH - 4, WIDTH, of="between"), *also)
        again = module(normal(2, LENGTH, WIDTH), *also)
    require(torch.equal(first, again), f"{name} remembers an earlier call.")
    changed = [key for key, tensor in module.state_dict().items() if not torch.equal(tensor, before[key])]
    require(not changed, f"{name}: a call changes {', '.join(changed)}.")


def require_saved(models: Iterator, others: Iterator) -> None:
    for (way, _, model), (_, _, other) in zip(models, others, strict=True):
        other.load_state_dict(model.state_dict())
        for batch in (token_batch(3, LENGTH), token_batch(3, LENGTH - 4), token_batch(3, LENGTH, lengths=True)):
            with torch.no_grad():
                logits = model(batch)
                require(torch.equal(other(batch), logits), f"{way}: what was saved and loaded gives another output.")
                require(torch.equal(copy.deepcopy(model)(batch), logits), f"{way}: a deep copy gives another output.")


def require_seeded(config: Any, size: MixerSize) -> None:
    states = []
    with torch.random.fork_rng(devices=[]):
        for noise, seed in ((1, 5), (2, 5), (1, 6)):
            torch.manual_seed(noise)
            before = torch.get_rng_state()
            try:
                module = config.build(size, generator=generator_for(seed, "contract"))
            except ConfigError:
                return
            untouched = torch.equal(before, torch.get_rng_state())
            require(untouched, f"{name_of(config)} draws from the global random generator.")
            states.append({} if module is None else module.state_dict())
    one, same, other = states
    require(alike(one, same), f"{name_of(config)}: one seed gives two sets of weights.")
    drawn = [name for name, tensor in one.items() if tensor.ndim >= 2]
    require(not drawn or not alike(one, other), f"{name_of(config)}: two seeds give one set of weights.")


def require_others_unmoved(slot: str, config: Any, usual: Any) -> None:
    """Swap the part in block 0; the rest of the model, block 1 included, starts as it did."""
    shape = TaskShape(length=LENGTH, vocabulary=VOCABULARY)
    states = []
    for part in (config, usual):
        blocks = (BlockConfig(**{slot: part}), BlockConfig())
        for two_way in (False, True):
            try:
                states.append(Transformer(ModelConfig(width=WIDTH, blocks=blocks, two_way=two_way), shape, seed=0))
                break
            except ConfigError:
                continue
    swapped, plain = (model.state_dict() for model in states)
    for address, tensor in swapped.items():
        if not address.startswith(f"blocks.0.{slot}."):
            same = address in plain and torch.equal(tensor, plain[address])
            require(same, f"{name_of(config)}: with it, {address} starts otherwise.")


def _require_plain(registry: Registry | None, config: Any) -> None:
    name = type(config).__name__
    if registry is None:
        raise AssertionError(f"{name} is registered nowhere: give it a name with the catalogue's register().")
    parameters = getattr(type(config), "__dataclass_params__", None)
    require(parameters is not None and parameters.frozen, f"{name} is no frozen dataclass.")
    require(bool(registry.summary(name_of(config))), f"{name} has no docstring to list it by.")
    back = configs.from_plain(Annotated[Any, registry], configs.to_plain(config))
    require(back == config, f"{config} comes back from plain data as {back}.")


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    return one == other

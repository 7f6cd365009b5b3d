"""What random frozen queries and keys can express, and what a random mixing matrix cannot without help.

Source: the theorem on frozen queries and keys of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115; random attention
features: Fu et al. 2023, arXiv:2307.11353.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from partwise.report.canvas import MARKERS, PALETTE
from partwise.seeds import generator_for
from partwise.theory import CHECKS, Chart, Line, Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 4  # channels of a key, and of a value
HEAD_WIDTH = 8
RIDGE = (1e-3, 1e-1, 1e1, 1e3)
SPLITS = {"train": 8000, "validation": 2000, "test": 4000}
SAMPLING = 0.03  # what a few thousand examples leave open


class Retrieval(NamedTuple):
    """Examples of one task: m tokens of a key and a value each, a query, and the value whose key is most like it."""

    tokens_BMC: Tensor
    query_BK: Tensor
    target_BV: Tensor


@CHECKS.register("expressivity")
@dataclass(frozen=True, kw_only=True)
class Expressivity:
    """Retrieval by one layer of random heads: its error falls with heads of softmax, and not with heads of mixing.

    The target is the value of the key most like the query. A head reads the tokens from the query's place, through
    softmax of random frozen queries and keys (scores of sd 1) or through a row of a random matrix; the target is
    regressed on what all heads give (ridge), as it is or after random ReLU features. Errors are shares of the target's
    variance; the plain mean of the values has 1 - 1/m, and no weights that do not look at the input do better. Mixing
    keeps the tokens apart all the same (given as many heads as tokens): an MLP that learns retrieves among few.

    Args:
        n_tokens: m.
        heads: numbers of heads.
        hidden: ReLU features.
        small: numbers of tokens for the MLP that learns.
        widths: of its two hidden layers.
        steps: of its training.
        seed: of all randomness.
    """

    n_tokens: int = 4
    heads: tuple[int, ...] = (1, 4, 16, 64, 128)
    hidden: int = 1024
    small: tuple[int, ...] = (2, 4, 8)
    widths: tuple[int, ...] = (16, 64, 256)
    steps: int = 1500
    seed: int = 0

    def run(self) -> Iterator[Line | Chart]:
        plain, errors = 1 - 1 / self.n_tokens, self.regressed()
        for (features, after), found in errors.items():
            about = f"{features} heads, {after}; {self.n_tokens} tokens"
            if (features, after) == ("mixing", "linear readout"):
                yield from self._flat(about, found, plain)
            else:
                yield from _falling(about, {f"{n_heads} heads": error for n_heads, error in found.items()})
            if (features, after) == ("softmax", "linear readout"):
                yield Line(
                    about=about,
                    what=f"error with {max(found)} heads, half the plain mean's",
                    predicted=plain / 2,
                    measured=found[max(found)],
                    tolerance=0.0,
                    relation="<=",
                )
        trained = self.trained()
        yield from self._border(trained)
        yield Chart(name="expressivity", draw=lambda: _figure(errors, trained, plain))

    def _flat(self, about: str, found: Mapping[int, float], plain: float) -> Iterator[Line]:
        """From as many heads as tokens on, when they suffice for the mean, more of them change nothing."""
        for n_heads, error in found.items():
            if n_heads >= self.n_tokens:
                yield Line(
                    about=about,
                    what=f"error with {n_heads} heads",
                    predicted=plain,
                    measured=error,
                    tolerance=SAMPLING,
                    because="sampling",
                )

    def _border(self, trained: Mapping[tuple[int, int, int], float]) -> Iterator[Line]:
        """Mixing keeps all there is of the tokens: an MLP may find it, and needs width that grows with their number."""
        most, wide, few = max(heads for _, heads, _ in trained), self.widths[-1], self.small[0]
        about = "MixiT's mixing and an MLP that learns: error over that of the plain mean"
        for m in self.small:
            widths = {f"{m} tokens, MLP of {width}": trained[m, most, width] for width in self.widths}
            yield from _falling(about, widths)
        bounds: tuple[tuple[int, float, Relation], ...] = ((most, 0.1, "<="), (few, 0.5, "<="), (few - 1, 0.5, ">="))
        for n_heads, bound, relation in bounds:
            yield Line(
                about=about,
                what=f"{few} tokens, {n_heads} heads, MLP of {wide}",
                predicted=bound,
                measured=trained[few, n_heads, wide],
                tolerance=0.0,
                relation=relation,
            )

    def regressed(self) -> dict[tuple[str, str], dict[int, float]]:
        """(features, what follows them) to error by number of heads."""
        data = {split: drawn(n, self.n_tokens, self._generator(split)) for split, n in SPLITS.items()}
        found: dict[tuple[str, str], dict[int, float]] = {}
        for features, heads_of in (("softmax", softmax_heads), ("mixing", mixing_heads)):
            seen = {
                split: heads_of(one, max(self.heads), self._generator(f"{features} heads"))
                for split, one in data.items()
            }
            for n_heads in self.heads:
                given = {split: _with_query(data[split], seen[split][:, :n_heads]) for split in data}
                bent = relu_features(given, self.hidden, self._generator("hidden"))
                for after, inputs in (("linear readout", given), ("random MLP", bent)):
                    found.setdefault((features, after), {})[n_heads] = ridge_error(inputs, data)
        return found

    def trained(self) -> dict[tuple[int, int, int], float]:
        """(tokens, heads, MLP's width) to the error of an MLP that learns from mixing, over that of the plain mean."""
        wide, most = self.widths[-1], max(16, max(self.small))
        sizes = [(m, most, width) for m in self.small for width in self.widths]
        sizes += [(self.small[0], n_heads, wide) for n_heads in (self.small[0] - 1, self.small[0])]
        return {size: self._trained(*size) / (1 - 1 / size[0]) for size in sizes}

    def _trained(self, m: int, n_heads: int, width: int) -> float:
        heads = torch.randn(n_heads, m, generator=self._generator(f"mixing {m}"))
        generator = self._generator(f"trained {m} {n_heads} {width}")
        first = nn.Linear(n_heads * 2 * SIZE + SIZE, width)
        net = nn.Sequential(first, nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, SIZE))
        with torch.no_grad():
            for parameter in net.parameters():
                spread = parameter.shape[-1] ** -0.5 if parameter.ndim == 2 else 0.0
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread * 2**0.5)
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        for _ in range(self.steps):
            loss = self._loss(net, drawn(256, m, generator), heads)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            return self._loss(net, drawn(4000, m, self._generator(f"test {m}")), heads).item()

    def _loss(self, net: nn.Module, data: Retrieval, mixing_HM: Tensor) -> Tensor:
        mixed_BHC = mixing_HM @ data.tokens_BMC / mixing_HM.shape[1] ** 0.5
        return ((net(_with_query(data, mixed_BHC)) - data.target_BV) ** 2).mean()

    def _generator(self, name: str) -> torch.Generator:
        return generator_for(self.seed, f"expressivity {name}")


def _falling(about: str, found: Mapping[str, float]) -> Iterator[Line]:
    """Each error is no larger than the least of those before it, and the first no larger than one."""
    least = 1.0
    for name, error in found.items():
        yield Line(
            about=about,
            what=f"{name}, no more than before",
            predicted=least,
            measured=error,
            tolerance=SAMPLING,
            because="sampling",
            relation="<=",
        )
        least = min(least, error)


def drawn(n: int, m: int, generator: torch.Generator) -> Retrieval:
    """Keys on a sphere, values N(0, 1), a query near one of the keys."""
    keys_BMK = _on_sphere(torch.randn(n, m, SIZE, generator=generator))
    values_BMV = torch.randn(n, m, SIZE, generator=generator)
    near_BK = keys_BMK[:, 0] + 0.5 * torch.randn(n, SIZE, generator=generator)  # they are put in another order below
    query_BK = _on_sphere(near_BK)
    nearest_B = (keys_BMK @ query_BK[..., None])[..., 0].argmax(-1)
    target_BV = values_BMV[torch.arange(n), nearest_B]
    order_BM = torch.rand(n, m, generator=generator).argsort(-1)
    tokens_BMC = torch.cat((keys_BMK, values_BMV), -1)
    return Retrieval(tokens_BMC[torch.arange(n)[:, None], order_BM], query_BK, target_BV)


def _on_sphere(x: Tensor) -> Tensor:
    return x * SIZE**0.5 / x.norm(dim=-1, keepdim=True)


def softmax_heads(data: Retrieval, n_heads: int, generator: torch.Generator) -> Tensor:
    """What each head of random frozen queries and keys reads from the query's place, (B, H, C)."""
    query_HKE, key_HKE = (torch.randn(n_heads, SIZE, HEAD_WIDTH, generator=generator) / SIZE**0.5 for _ in range(2))
    q_BHE = torch.einsum("bk,hke->bhe", data.query_BK, query_HKE)
    k_BHME = torch.einsum("bmk,hke->bhme", data.tokens_BMC[..., :SIZE], key_HKE)
    mix_BHM = torch.einsum("bhe,bhme->bhm", q_BHE, k_BHME).div(HEAD_WIDTH**0.5).softmax(-1)
    return mix_BHM @ data.tokens_BMC


def mixing_heads(data: Retrieval, n_heads: int, generator: torch.Generator) -> Tensor:
    """What each row of a random matrix reads, (B, H, C)."""
    mix_HM = torch.randn(n_heads, data.tokens_BMC.shape[1], generator=generator)
    return mix_HM @ data.tokens_BMC / mix_HM.shape[1] ** 0.5


def _with_query(data: Retrieval, read_BHC: Tensor) -> Tensor:
    return torch.cat((read_BHC.flatten(1), data.query_BK), -1)


def relu_features(inputs: Mapping[str, Tensor], n: int, generator: torch.Generator) -> dict[str, Tensor]:
    """The inputs and n random ReLU features of them, split by split."""
    scale = inputs["train"].std(0)
    width = len(scale)
    weight = torch.randn(width, n, generator=generator) / width**0.5 / scale[:, None]
    bias = torch.randn(n, generator=generator)
    return {split: torch.cat((x, torch.relu(x @ weight + bias)), -1) for split, x in inputs.items()}


def ridge_error(inputs: Mapping[str, Tensor], data: Mapping[str, Retrieval]) -> float:
    """On test, as a share of the target's variance; the ridge is the best of RIDGE on validation."""
    inputs = {split: torch.cat((x, torch.ones(len(x), 1)), -1).double() for split, x in inputs.items()}
    targets = {split: one.target_BV.double() for split, one in data.items()}
    gram = inputs["train"].mT @ inputs["train"]
    right = inputs["train"].mT @ targets["train"]
    weights = [torch.linalg.solve(gram + ridge * torch.eye(len(gram)), right) for ridge in RIDGE]

    def error(weight: Tensor, split: str) -> float:
        return ((inputs[split] @ weight - targets[split]) ** 2).mean().item() / targets[split].var().item()

    return error(min(weights, key=lambda weight: error(weight, "validation")), "test")


def _figure(
    errors: Mapping[tuple[str, str], Mapping[int, float]], trained: Mapping[tuple[int, int, int], float], plain: float
) -> "Figure":
    """Left: error against heads. Right: how far a trained MLP retrieves from mixing, by tokens and width."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, ((features, after), found) in enumerate(errors.items()):
        left.plot(list(found), list(found.values()), color=PALETTE[i], marker=MARKERS[i], label=f"{features}, {after}")
    left.axhline(plain, color="#666666", linestyle="--", linewidth=1, label="plain mean of the values")
    left.set(xlabel="heads", ylabel="error, share of the variance", title="ridge on what random heads read")
    most = max(n_heads for _, n_heads, _ in trained)
    for i, m in enumerate(dict.fromkeys(m for m, _, _ in trained)):
        line = {width: share for (tokens, n_heads, width), share in trained.items() if (tokens, n_heads) == (m, most)}
        right.plot(list(line), list(line.values()), color=PALETTE[i], marker=MARKERS[i], label=f"{m} tokens")
    right.axhline(1, color="#666666", linestyle="--", linewidth=1)
    right.set(xlabel="width of the MLP", ylabel="error over the plain mean's", title="mixing, and an MLP that learns")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize=8)
    return figure

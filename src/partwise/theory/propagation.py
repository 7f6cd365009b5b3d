"""The covariance SDEs of random mixing and of shaped attention, against finite networks of growing width."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from partwise.report.canvas import PALETTE
from partwise.seeds import generator_for
from partwise.theory import CHECKS, Chart, Line
from partwise.theory.covariance_sde import CovarianceSde, solve
from partwise.theory.networks import Net, final_covariances

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = {"n_heads": 4, "out": True}
SLOPES = (0.0, -1.0)
ATTENTION = {
    "mixing": "attention",
    "strength": 3.0,
    "gamma2": 0.25,
}  # strong, so that its drift is seen above the noise
NETS = tuple(
    Net(causal=causal, **more)
    for more in ({}, HEADS, HEADS | {"slopes": SLOPES}, ATTENTION)
    for causal in (False, True)
)


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class Comparison:
    """One kind of network beside its SDE: of each quantity, the SDE's number and those of the widths."""

    net: Net
    theory: Mapping[str, Estimate]
    finite: Mapping[int, Mapping[str, Estimate]]
    correlations: Mapping[str, Tensor]  # of the SDE, and of the widest networks

    def limit(self, quantity: str) -> tuple[Estimate, float]:
        """The networks' number at infinite width, and b: number = limit + b / n, by weighted least squares."""
        found = {n: values[quantity] for n, values in self.finite.items()}
        design = torch.tensor([[1.0, 1.0 / n] for n in found], dtype=torch.float64)
        weight = torch.tensor([1 / one.error for one in found.values()], dtype=torch.float64)
        values = torch.tensor([one.value for one in found.values()], dtype=torch.float64)
        inverse = torch.linalg.inv(design.mT @ (design * weight[:, None] ** 2))
        limit, slope = (inverse @ design.mT @ (values * weight**2)).tolist()
        return Estimate(limit, inverse[0, 0].sqrt().item()), slope


@CHECKS.register("propagation")
@dataclass(frozen=True, kw_only=True)
class Propagation:
    """How tokens' covariance moves through depth: the SDEs of MixiT and of shaped attention against finite networks.

    Networks of width n and depth `time` n, for each width: what they end with is fitted by limit + b / n, and the limit
    must be the SDE's within 3 standard errors of both, b below `bound`, and each standard error below `precision`.

    Args:
        widths: n.
        time: depth / n.
        n_draws: networks of each width.
        n_paths: of the SDE.
        n_steps: of each path.
        bound: of b.
        precision: of each standard error.
        seed: of all randomness.
    """

    widths: tuple[int, ...] = (32, 64, 128)
    time: float = 0.25
    n_draws: int = 12_000
    n_paths: int = 20_000
    n_steps: int = 64
    bound: float = 3.0
    precision: float = 0.01
    seed: int = 0

    def run(self) -> Iterator[Line | Chart]:
        made = []
        for net in NETS:
            made.append(self.compare(net, CovarianceSde))
            yield from self.lines(made[-1])
        yield Chart(name="propagation_width", draw=lambda: _widths(made))
        yield Chart(name="propagation_histogram", draw=lambda: _histograms(made))

    def compare(self, net: Net, law: type[CovarianceSde]) -> Comparison:
        """Solve the SDE, draw the networks, and summarize both."""
        correlation = 0.5 if net.mixing == "random" else 0.2
        start = torch.eye(3, dtype=torch.float64) * (1 - correlation) + correlation
        paths = solve(
            law(net, len(start)),
            start,
            time=self.time,
            n_steps=self.n_steps,
            n_paths=self.n_paths,
            generator=generator_for(self.seed, f"sde {net}"),
        )
        drawn = {
            width: final_covariances(
                net,
                start,
                width=width,
                depth=round(width * self.time),
                n_draws=self.n_draws,
                generator=generator_for(self.seed, f"width {width} {net}"),
            )
            for width in self.widths
        }
        ends = {"SDE": paths, f"n = {max(drawn)}": drawn[max(drawn)]}
        return Comparison(
            net,
            summarized(paths),
            {width: summarized(v) for width, v in drawn.items()},
            {name: correlation_of(v) for name, v in ends.items()},
        )

    def lines(self, found: Comparison) -> Iterator[Line]:
        """A line a quantity, one for b, one for the standard errors."""
        slopes, errors = [], []
        for quantity, theory in found.theory.items():
            limit, slope = found.limit(quantity)
            tolerance = 3 * math.hypot(limit.error, theory.error)
            yield Line(
                about=str(found.net),
                what=quantity,
                predicted=theory.value,
                measured=limit.value,
                tolerance=tolerance,
                because="3 standard errors",
            )
            slopes.append(abs(slope))
            errors += [theory.error, *(values[quantity].error for values in found.finite.values())]
        for what, bound, measured in (
            ("largest error at width n, times n", self.bound, max(slopes)),
            ("largest standard error", self.precision, max(errors)),
        ):
            yield Line(
                about=str(found.net), what=what, predicted=bound, measured=measured, tolerance=0.0, relation="<="
            )


def correlation_of(v: Tensor) -> Tensor:
    """Of the first token and the last."""
    return v[:, 0, -1] / (v[:, 0, 0] * v[:, -1, -1]).sqrt()


def summarized(v: Tensor) -> dict[str, Estimate]:
    """Correlations and log energies; V itself has heavy tails."""
    rho = correlation_of(v)
    away = (rho - rho.mean()) ** 2
    spread = rho.std().item()
    return {
        "correlation, first and last token": _mean(rho),
        "its standard deviation": Estimate(spread, _mean(away).error / (2 * spread)),
        "log energy of the first token": _mean(v[:, 0, 0].log()),
        "log energy of the last token": _mean(v[:, -1, -1].log()),
    }


def _mean(values: Tensor) -> Estimate:
    return Estimate(values.mean().item(), (values.std() / len(values) ** 0.5).item())


def _widths(made: Sequence[Comparison]) -> "Figure":
    """Network minus SDE against 1 / n, with the fit and where it ends."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 5.4), layout="constrained")
    for axes, found in zip(figure.subplots(2, 4, sharey=True).T.flat, made, strict=False):
        for color, (quantity, theory) in zip(PALETTE, found.theory.items(), strict=False):
            limit, slope = found.limit(quantity)
            points = [(1 / n, values[quantity]) for n, values in sorted(found.finite.items(), reverse=True)]
            places = [x for x, _ in points]
            heights = [one.value - theory.value for _, one in points]
            axes.errorbar(
                places, heights, [one.error for _, one in points], fmt="o", markersize=3, color=color, label=quantity
            )
            start = limit.value - theory.value
            axes.plot([0, places[-1]], [start, start + slope * places[-1]], linewidth=1, color=color)
            axes.errorbar([0], [start], [math.hypot(limit.error, theory.error)], fmt="D", markersize=3, color=color)
        axes.axhline(0, color="#999999", linewidth=0.8, zorder=0)
        axes.set_title(str(found.net).replace(", output matrix", ",\noutput matrix"), fontsize=8)
        axes.set_xticks([0, *(1 / n for n in sorted(found.finite, reverse=True))])
        axes.set_xticklabels(["∞", *(str(n) for n in sorted(found.finite, reverse=True))])
        axes.set_xlabel("width n (axis: 1 / n)")
    figure.axes[0].set_ylabel("network − SDE")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure


def _histograms(made: Sequence[Comparison]) -> "Figure":
    """The law of the correlation at the end time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 5.0), layout="constrained")
    for axes, found in zip(figure.subplots(2, 4, sharey=True).T.flat, made, strict=False):
        for color, (name, values) in zip(PALETTE, found.correlations.items(), strict=False):
            axes.hist(values.numpy(), bins=50, range=(-1, 1), density=True, histtype="step", color=color, label=name)
        axes.set_title(str(found.net).replace(", output matrix", ",\noutput matrix"), fontsize=8)
        axes.set_xlabel("correlation, first and last token")
    figure.axes[0].set_ylabel("density")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure

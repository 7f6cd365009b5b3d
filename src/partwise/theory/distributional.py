"""First steps of feed-forward and attention on noisy recall, and a memory whose associations share a noise.

Source: Chen, Bruna, Bietti 2024, arXiv:2406.03068, in a model as we set it up: one layer, linear, orthonormal
embeddings, zero at the start, uniform attention,

    logits = W_F e_q + W_V xbar,    xbar = (1/T) sum_t e_(z_t)

The formulas below are derived for this set-up and are ours; the paper's own assumptions may differ.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from partwise.seeds import generator_for
from partwise.theory import CHECKS, Line

SIGMAS = 4  # standard errors that a mean may lie away
REST = 3  # of T positions: so many, at most, hold the label itself, which c is made of
EXACT = 1e-6  # relative: two ways of computing one thing in float64


@CHECKS.register("distributional")
@dataclass(frozen=True, kw_only=True)
class Distributional:
    """First gradient steps, the pull of noise on attention, and an associative memory with a common noise.

    Args:
        runs: first steps, each on examples of its own.
        examples: that the pull is averaged over.
        steps: of gradient descent, of the memory.
    """

    runs: int = 200
    examples: int = 40_000
    steps: int = 20_000

    def run(self) -> Iterator[Line]:
        for n_tokens, length, n_examples, alpha in ((16, 64, 64, 0.5), (64, 64, 256, 0.5), (64, 8, 256, 0.3)):
            yield from self._first_step(n_tokens, length, n_examples, alpha)
        for alpha in (0.5, 0.3):
            yield from self._pull(64, 64, alpha)
        for n_inputs, alpha in ((2, 0.3), (3, 0.3), (4, 0.1), (4, 0.3), (8, 0.3), (64, 0.5)):
            yield from self._memory(n_inputs, alpha)

    def _first_step(self, n_tokens: int, length: int, n_examples: int, alpha: float) -> Iterator[Line]:
        """One full-batch step of size 1 from zero, on m examples whose last token is the trigger.

        feed-forward: W_F e_q = mean_i (e_(y_i) - 1/V);  noise over any other own token: alpha - (1 - alpha) / N'
        attention: l = mean_i (e_(y_i) - 1/V) <xbar_i, xbar>;  kappa times as much, kappa = |E xbar|^2
        """
        about = f"first step: N = {n_tokens} tokens, T = {length}, m = {n_examples}, alpha = {alpha}"
        generator = generator_for(0, about)
        margins = torch.empty(self.runs, 2, dtype=torch.float64)
        noises = torch.empty(self.runs, dtype=torch.float64)
        for run in range(self.runs):
            tokens_BL, target_B = _recall(n_examples, n_tokens, length, alpha, generator)
            test_BL, _ = _recall(n_examples, n_tokens, length, alpha, generator)
            pull_BV = torch.nn.functional.one_hot(target_B, n_tokens + 1).double() - 1 / (n_tokens + 1)
            feed_V = pull_BV.mean(0)
            seen_BV, test_V = _means(tokens_BL, n_tokens + 1), _means(test_BL, n_tokens + 1).mean(0)
            attention_V = (pull_BV * (seen_BV @ test_V)[:, None]).mean(0)
            for at, logits_V in enumerate((feed_V, attention_V)):
                margins[run, at] = logits_V[n_tokens] - logits_V[1:n_tokens].mean()  # 0 is the trigger, N the noise
            noises[run] = feed_V[n_tokens]
        many_BL, _ = _recall(20_000, n_tokens, length, alpha, generator)
        kappa = _means(many_BL, n_tokens + 1).mean(0).square().sum().item()
        predicted = alpha - (1 - alpha) / (n_tokens - 1)
        feed, attention = margins.mean(0).tolist()
        errors = (margins.std(0) / math.sqrt(self.runs)).tolist()
        because = f"{SIGMAS} standard errors of {self.runs} runs"
        yield Line(about=about, what="feed-forward: margin of the noise", predicted=predicted, measured=feed,
                   tolerance=SIGMAS * errors[0], because=because)  # fmt: skip
        spread = math.sqrt(alpha * (1 - alpha) / n_examples)
        yield Line(about=about, what="feed-forward: its sd over runs", predicted=spread, measured=noises.std().item(),
                   tolerance=SIGMAS * spread / math.sqrt(2 * self.runs), because=because)  # fmt: skip
        yield Line(about=about, what="attention: margin of the noise", predicted=kappa * predicted, measured=attention,
                   tolerance=SIGMAS * errors[1] + 0.05 * kappa * predicted,
                   because=f"{because}, and 5 % for xbar's own hang on the label")  # fmt: skip
        yield Line(about=about, what="attention over feed-forward", predicted=kappa, measured=attention / feed,
                   tolerance=0.05 * kappa + SIGMAS * errors[1] / feed, because="5 %, and sampling")  # fmt: skip

    def _pull(self, n_tokens: int, length: int, alpha: float) -> Iterator[Line]:
        """The push on a score of uniform softmax attention whose values copy, times T / beta:

            g_t = 1{y = z_t} - p(z_t) - c,    c = sum_k (1{y = k} - p_k) xbar_k
            behind a trigger, own token: (1 - alpha) - p(own);   noise: alpha - p(noise);   p: of the feed-forward alone

        Before the feed-forward has fitted anything, p = 1/V; afterwards p(noise) = alpha, and noise attracts no more.
        """
        generator = generator_for(0, f"pull {alpha}")
        tokens_BL, target_B = _recall(self.examples, n_tokens, length, alpha, generator)
        vocabulary = n_tokens + 1
        blank_V = torch.full((vocabulary,), 1 / vocabulary, dtype=torch.float64)
        fitted_V = torch.full((vocabulary,), (1 - alpha) / (n_tokens - 1), dtype=torch.float64)
        fitted_V[0], fitted_V[n_tokens] = 0.0, alpha
        behind_BL = torch.zeros_like(tokens_BL, dtype=torch.bool)
        behind_BL[:, 1:] = tokens_BL[:, :-1] == 0
        noise_BL = behind_BL & (tokens_BL == n_tokens)
        own_BL = behind_BL & (tokens_BL != n_tokens)
        for name, said_V in (("nothing", blank_V), ("the noise", fitted_V)):
            wrong_BV = torch.nn.functional.one_hot(target_B, vocabulary).double() - said_V
            common_B = (wrong_BV * _means(tokens_BL, vocabulary)).sum(-1)
            push_BL = wrong_BV.gather(1, tokens_BL) - common_B[:, None]
            about = f"pull on attention: alpha = {alpha}, the feed-forward has fitted {name}"
            for what, here_BL, share in (("own token", own_BL, 1 - alpha), ("noise", noise_BL, alpha)):
                own = said_V[n_tokens if what == "noise" else 1].item()
                values_N = push_BL[here_BL]
                error = values_N.std().item() / math.sqrt(len(values_N))
                yield Line(about=about, what=f"on {what} behind a trigger", predicted=share - own,
                           measured=values_N.mean().item(), tolerance=REST / length + SIGMAS * error,
                           because=f"{REST}/T for c, and {SIGMAS} standard errors")  # fmt: skip

    def _memory(self, n_inputs: int, alpha: float) -> Iterator[Line]:
        """logits = W x on N inputs, label x or the common noise. Gradient descent from zero keeps
        W = (a I + b 11'; c 1'), whose singular values are a, N - 1 times, and s = sqrt(N + 1) |c|: the noise alone.

            c -> (a (N - 1) + N logit(alpha)) / (N + 1),    s / a -> (N - 1) / sqrt(N + 1)
        """
        about = f"memory with common noise: N = {n_inputs}, alpha = {alpha}"
        weight_VN = trained_memory(n_inputs, alpha, self.steps)
        u_VR, s_R, v_RN = torch.linalg.svd(weight_VN, full_matrices=False)
        flat_N = torch.full((n_inputs,), n_inputs**-0.5, dtype=torch.float64)
        at = int((v_RN @ flat_N).abs().argmax())
        a, c = reduced_memory(n_inputs, alpha, self.steps)
        noise, others_R = math.sqrt(n_inputs + 1) * abs(c), torch.cat((s_R[:at], s_R[at + 1 :]))
        exact: dict[str, Any] = {"about": about, "because": "rounding"}
        yield Line(about=about, what="which component is the noise (0: largest)", tolerance=0.0, because="a count",
                   predicted=n_inputs - 1 if noise < a else 0, measured=at)  # fmt: skip
        yield Line(
            what="its singular value", predicted=noise, measured=s_R[at].item(), tolerance=EXACT * noise, **exact
        )
        for which, value in (("largest", others_R.max()), ("smallest", others_R.min())):
            what = f"{which} of the others"
            yield Line(what=what, predicted=a, measured=value.item(), tolerance=EXACT * a, **exact)
        of_alpha = n_inputs * math.log(alpha / (1 - alpha)) / (n_inputs + 1)
        ratio = math.sqrt(n_inputs + 1) * (weight_VN[n_inputs, 0].item() - of_alpha) / others_R.mean().item()
        yield Line(about=about, what="noise over others, less what alpha adds", predicted=limit(n_inputs),
                   measured=ratio, tolerance=0.01 * limit(n_inputs), because="1 %: a finite time")  # fmt: skip
        kept_VN = weight_VN - s_R[at] * torch.outer(u_VR[:, at], v_RN[at])
        said = kept_VN[:, 0].softmax(0)[n_inputs].item()
        yield Line(about=about, what="noise said without that component", predicted=0.1 * alpha, measured=said,
                   tolerance=0.0, relation="<=", because="a tenth of alpha")  # fmt: skip


def limit(n_inputs: int) -> float:
    """What s / a goes to as a grows: (N - 1) / sqrt(N + 1)."""
    return (n_inputs - 1) / math.sqrt(n_inputs + 1)


def trained_memory(n_inputs: int, alpha: float, steps: int) -> Tensor:
    """W (N + 1, N) after gradient descent from zero at rate N / 2, float64: the weights themselves, by no formula."""
    target_VN = torch.full((n_inputs + 1, n_inputs), alpha, dtype=torch.float64)
    target_VN[:n_inputs] = (1 - alpha) * torch.eye(n_inputs, dtype=torch.float64)
    weight_VN = torch.zeros_like(target_VN)
    for _ in range(steps):
        weight_VN += 0.5 * (target_VN - weight_VN.softmax(0))
    return weight_VN


def reduced_memory(n_inputs: int, alpha: float, steps: int) -> tuple[float, float]:
    """(a, c) by the three numbers that symmetry leaves, at the same rate:

    d(a + b) = (1 - alpha - p_right) / 2,    db = -p_wrong / 2,    dc = (alpha - p_noise) / 2
    """
    right = wrong = noise = 0.0  # logits of the label, of each of the N - 1 others, of the noise
    for _ in range(steps):
        most = max(right, wrong, noise)
        shares = [math.exp(value - most) for value in (right, wrong, noise)]
        total = shares[0] + (n_inputs - 1) * shares[1] + shares[2]
        right += 0.5 * (1 - alpha - shares[0] / total)
        wrong -= 0.5 * shares[1] / total
        noise += 0.5 * (alpha - shares[2] / total)
    return right - wrong, noise


def _recall(n: int, n_tokens: int, length: int, alpha: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens (n, T) and targets (n,): token 0 is the trigger and comes last, N is the noise; all else is uniform."""
    own_B = torch.randint(1, n_tokens, (n,), generator=generator)
    free_BL = torch.randint(n_tokens, (n, length + 1), generator=generator)
    coin_BL = torch.rand((n, length + 1), generator=generator) < alpha
    tokens = [free_BL[:, 0]]
    for place in range(1, length + 1):
        recalled_B = torch.where(coin_BL[:, place], n_tokens, own_B)
        tokens.append(torch.where(tokens[-1] == 0, recalled_B, free_BL[:, place]))
        if place == length - 1:
            tokens[-1] = torch.zeros_like(own_B)
    return torch.stack(tokens[:-1], dim=1), tokens[-1]


def _means(tokens_BL: Tensor, vocabulary: int) -> Tensor:
    """xbar: the share of each token, float64 (B, V)."""
    count_BV = torch.zeros(len(tokens_BL), vocabulary, dtype=torch.float64)
    ones_BL = torch.ones(tokens_BL.shape, dtype=torch.float64)
    return count_BV.scatter_add_(1, tokens_BL, ones_BL) / tokens_BL.shape[1]

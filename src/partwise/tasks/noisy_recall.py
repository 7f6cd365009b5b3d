"""Noisy in-context recall: after a trigger comes noise, or the token that followed it before in this example.

    tokens   T h e _ a n d _ ! n o _ a m          trigger: the space, written _; noise: !
    targets  . . . . . . . ! . . . a . .          this example's own token behind the trigger: a

Two explanations of one position compete: `trigger, noise` is an association of the whole distribution, and
`trigger, own token` one of the context alone.

Source: Chen, Bruna, Bietti 2024, arXiv:2406.03068, section 3, and its published code (leichen2018/ATTN_vs_MLP 4258c67).
Unlike there: one seeded generator draws everything (the code's coin is unseeded, and alike in all its data workers);
the text is another; ids are ordered noise, triggers, all else, which changes nothing.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.corpora import CORPORA, Corpus
from partwise.corpora.shakespeare import Shakespeare
from partwise.errors import ConfigError
from partwise.rows import Row
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS, Metric
from partwise.tasks.splits import draw_split_each, in_split, packed

NOISE = 0  # its id, whatever the text
TINY = 1e-12  # a probability that is never given is taken as this


@TASKS.register("noisy_recall")
@dataclass(frozen=True, kw_only=True)
class NoisyRecall:
    """Noisy recall: what follows a trigger is noise with probability alpha, else the example's own token.

        z_1 ~ unigram;    z_(t+1) ~ bigram(z_t) behind an ordinary token,
        z_(t+1) = noise with probability alpha, own with probability 1 - alpha, behind a trigger

    The own token of each trigger is uniform, once an example. The unigram and bigram are those of the `n_symbols` most
    frequent characters of a text. Ids: 0 is the noise, 1 to K are the triggers, the K most frequent characters.

    The headline is the loss. Its ceiling is the exact posterior on the very same examples: the own token is known once
    it was seen, and otherwise the more doubtful the fewer of its places were noise. Its floor never looks back. At
    alpha = .5 noise and own token are equally likely, so accuracy is a coin there.

    Args:
        corpus: the text.
        n_symbols: characters of it that count.
        n_triggers: K.
        noise: alpha, from 0 on and below 1.
        length: tokens of an example.
        form: released: the noise is the symbol `noise_symbol`, which also occurs by itself; the own token may be any
            symbol; scored is each trigger that occurred before. paper: the noise is a token of its own, behind which
            the unigram goes on; the own token is any symbol but a trigger; the last token is a trigger, scored alone.
        noise_symbol: of the released form.
    """

    corpus: Annotated[Corpus, CORPORA] = Shakespeare()
    n_symbols: int = 65
    n_triggers: int = 1
    noise: float = 0.5
    length: int = 64
    form: Literal["released", "paper"] = "released"
    noise_symbol: str = "!"

    def __post_init__(self) -> None:
        if not 0 <= self.noise < 1:
            raise ConfigError(f"noise={self.noise}: a probability from 0 on and below 1 was expected.")
        if not 1 <= self.n_triggers <= self.n_symbols - 2:
            raise ConfigError(
                f"n_triggers={self.n_triggers} of n_symbols={self.n_symbols}: at least 1, and 2 symbols that are none."
            )
        if self.length < 4:
            raise ConfigError(f"length={self.length}: at least 4 tokens, or no trigger could come twice.")

    def build(self, *, seed: int) -> "NoisyRecallData":
        return NoisyRecallData(self)


class NoisyRecallData:
    ceiling = None  # of each set of examples its own; `derived` has it
    splits_overlap = None
    headline = Metric(name="loss", unit="nat", better="lower", high=None, perfect=None)

    def __init__(self, task: NoisyRecall):
        self.task = task
        self.n_triggers = task.n_triggers
        noise = task.noise_symbol if task.form == "released" else ""
        known = _base(task.corpus, task.n_symbols, task.n_triggers, noise)  # type: ignore[arg-type]  # configs are frozen
        symbols, self.unigram_V, bigram_VV = known
        self.symbols = symbols
        vocabulary = len(symbols)
        # All rows of the bigram, one above the other, and the unigram last: one search finds any successor.
        rows_RV = torch.cat((bigram_VV, self.unigram_V[None])).cumsum(1)
        rows_RV[:, -1] = 1.0
        self.steps_N = (rows_RV + torch.arange(vocabulary + 1)[:, None]).flatten()
        first_own = 0 if task.form == "released" else 1 + task.n_triggers
        self.own_V = torch.arange(first_own, vocabulary)  # what an example's own token may be
        self.shape = TaskShape(length=task.length, vocabulary=vocabulary, may_look_ahead=False)

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        return next(self.sample_each(n, split=split, generators=(generator,)))

    def sample_each(self, n: int, *, split: Split, generators: Sequence[torch.Generator]) -> Iterator[Batch]:
        whole = self._batch(draw_split_each(n, split, self._draw, generators, member=self._member))
        return (whole.rows(at, at + n) for at in range(0, len(whole), n))

    def clean(self, n: int, *, generator: torch.Generator) -> Batch:
        """Examples of the test split without noise, for probes that ask what is recalled where noise was usual."""
        clean = NoisyRecallData(replace(self.task, noise=0.0))
        return clean.sample(n, split="test", generator=generator)

    def _member(self, split: Split, drawn_BX: Tensor) -> Tensor:
        """By the input alone: what comes behind the last token would let two splits share one. Examples that score
        nothing are in none."""
        tokens_BL = drawn_BX[:, : self.task.length]
        return in_split(split, packed(tokens_BL, self.shape.output_width)) & (self._scored(tokens_BL).any(-1))

    def _batch(self, drawn_BX: Tensor) -> Batch:
        length = self.task.length
        tokens_BL, next_BL = drawn_BX[:, :length], drawn_BX[:, 1 : length + 1]
        targets_BL = next_BL.masked_fill(~self._scored(tokens_BL), IGNORE)
        return Batch(tokens_BL=tokens_BL, targets_BL=targets_BL, strata={"label_is_noise": (next_BL == NOISE).long()})

    def _draw(self, n: int, generators: Sequence[torch.Generator]) -> Tensor:
        """length + 1 tokens an example, (n, X)."""
        drawn = zip(*(self._chance(n, generator) for generator in generators), strict=True)
        chance_NX, coin_NX, own_NK, last_N = map(torch.cat, drawn)
        beginning_N = torch.full_like(last_N, self.shape.output_width)  # which the unigram stands behind
        tokens = [self._ordinary(beginning_N, chance_NX[:, 0])]
        for place in range(1, self.task.length + 1):
            tokens.append(self._following(tokens[-1], chance_NX[:, place], coin_NX[:, place], own_NK))
            if self.task.form == "paper" and place == self.task.length - 1:
                tokens[-1] = last_N
        return torch.stack(tokens, dim=1)

    def _following(self, token_N: Tensor, chance_N: Tensor, coin_N: Tensor, own_NK: Tensor) -> Tensor:
        which_N1 = (token_N - 1).clamp(0, self.n_triggers - 1)[:, None]
        recalled_N = torch.where(coin_N < self.task.noise, NOISE, own_NK.gather(1, which_N1)[:, 0])
        return torch.where(self._is_trigger(token_N), recalled_N, self._ordinary(token_N, chance_N))

    def _ordinary(self, token_N: Tensor, chance_N: Tensor) -> Tensor:
        vocabulary = self.shape.output_width
        at_N = torch.searchsorted(self.steps_N, token_N + chance_N, right=True) - vocabulary * token_N
        return at_N.clamp(max=vocabulary - 1)  # a chance just below one may be rounded into the next row

    def _chance(self, n: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        across = (n, self.task.length + 1)
        own_NK = torch.randint(len(self.own_V), (n, self.n_triggers), generator=generator)
        return (
            torch.rand(across, generator=generator, dtype=torch.float64),
            torch.rand(across, generator=generator, dtype=torch.float64),
            self.own_V[own_NK],
            torch.randint(1, 1 + self.n_triggers, (n,), generator=generator),
        )

    def _is_trigger(self, tokens: Tensor) -> Tensor:
        return (tokens >= 1) & (tokens <= self.n_triggers)

    def _scored(self, tokens_BL: Tensor) -> Tensor:
        """Where a trigger stands that occurred before; in the paper's form, the last position."""
        if self.task.form == "paper":
            return (torch.arange(tokens_BL.shape[1]) == tokens_BL.shape[1] - 1).expand_as(tokens_BL)
        return self._is_trigger(tokens_BL) & (self._occurrences(tokens_BL) >= 2)

    def _occurrences(self, tokens_BL: Tensor) -> Tensor:
        """How often the position's token has come so far, itself counted; of triggers, else 0."""
        found_BL = torch.zeros_like(tokens_BL)
        for trigger in range(1, 1 + self.n_triggers):
            here_BL = tokens_BL == trigger
            found_BL = torch.where(here_BL, here_BL.cumsum(1), found_BL)
        return found_BL

    def _known(self, tokens_BL: Tensor) -> tuple[Tensor, Tensor]:
        """At each trigger: its own token where the context shows it, else -1; how often noise came behind it so far."""
        own_BL, noise_BL = torch.full_like(tokens_BL, -1), torch.zeros_like(tokens_BL)
        before_BL = torch.cat((torch.full_like(tokens_BL[:, :1], -1), tokens_BL[:, :-1]), dim=1)
        for trigger in range(1, 1 + self.n_triggers):
            here_BL, behind_BL = tokens_BL == trigger, before_BL == trigger
            shows_BL = behind_BL & (tokens_BL != NOISE) & (tokens_BL >= int(self.own_V[0]))  # not a last one, set there
            shown_BL = torch.where(shows_BL, tokens_BL, -1).cummax(1).values
            noise_before_BL = (behind_BL & (tokens_BL == NOISE)).cumsum(1)
            own_BL = torch.where(here_BL, shown_BL, own_BL)
            noise_BL = torch.where(here_BL, noise_before_BL, noise_BL)
        return own_BL, noise_BL

    def posterior(self, batch: Batch) -> Tensor:
        """What is best said at each trigger, by Bayes, float64 (B, L, V).

        own token seen: noise alpha, own 1 - alpha
        else, m times noise: P(own = k | m) is in proportion to alpha^m, and to 1 for the noise itself where it may be
        an own token;   P(noise) = alpha + (1 - alpha) P(own = noise | m),   P(k) = (1 - alpha) P(own = k | m)
        """
        alpha, vocabulary = self.task.noise, self.shape.output_width
        own_BL, noise_BL = self._known(batch.tokens_BL)
        may_be_V = torch.zeros(vocabulary, dtype=torch.float64).index_fill(0, self.own_V, 1.0)
        weight_BLV = may_be_V * (alpha ** noise_BL[..., None].double())
        weight_BLV[..., NOISE] = may_be_V[NOISE]
        doubtful_BLV = weight_BLV / weight_BLV.sum(-1, keepdim=True)
        known_BLV = torch.nn.functional.one_hot(own_BL.clamp(min=0), vocabulary).double()
        own_BLV = torch.where((own_BL >= 0)[..., None], known_BLV, doubtful_BLV)
        said_BLV = (1 - alpha) * own_BLV
        said_BLV[..., NOISE] += alpha
        return said_BLV

    def bayes(self, batch: Batch) -> Tensor:
        """The likeliest token; at alpha = .5, where two are equally likely, the noise."""
        said_BLV = self.posterior(batch)
        said_BLV[..., NOISE] += 1e-9
        return said_BLV.argmax(-1)

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """Noise, always; and whatever stood behind this trigger the last time, noise or not."""
        tokens_BL = batch.tokens_BL
        return {"noise": torch.full_like(tokens_BL, NOISE), "last_successor": self._last_successor(tokens_BL)}

    def _last_successor(self, tokens_BL: Tensor) -> Tensor:
        length = tokens_BL.shape[1]
        said_BL = torch.full_like(tokens_BL, NOISE)
        before_BL = torch.cat((torch.full_like(tokens_BL[:, :1], -1), tokens_BL[:, :-1]), dim=1)
        for trigger in range(1, 1 + self.n_triggers):
            at_BL = torch.where(before_BL == trigger, torch.arange(length), -1).cummax(1).values
            found_BL = torch.where(at_BL >= 0, tokens_BL.gather(1, at_BL.clamp(min=0)), NOISE)
            said_BL = torch.where(tokens_BL == trigger, found_BL, said_BL)
        return said_BL

    def floor_losses(self, batch: Batch) -> dict[str, Tensor]:
        """`bigram`: what follows a trigger over all examples, without a look at this one: alpha for the noise, the rest
        shared by all that may be an own token."""
        said_V = torch.zeros(self.shape.output_width, dtype=torch.float64)
        said_V[self.own_V] = (1 - self.task.noise) / len(self.own_V)
        said_V[NOISE] += self.task.noise
        return {"bigram": -said_V.clamp_min(TINY).log()[batch.targets_BL.clamp(min=0)]}

    def counts(self, batch: Batch) -> dict[str, float]:
        """The mean loss of the exact posterior on these examples, and how often the own token had been seen."""
        scored_BL = batch.scored_BL
        said_BL = self.posterior(batch).gather(-1, batch.targets_BL.clamp(min=0)[..., None])[..., 0]
        own_BL, _ = self._known(batch.tokens_BL)
        return {
            "posterior": -said_BL[scored_BL].log().mean().item(),
            "seen": (own_BL >= 0)[scored_BL].double().mean().item(),
            "scored": float(scored_BL.sum()),
        }

    def derived(self, measured: Mapping[str, float]) -> Iterator[Row]:
        """The posterior's loss is the best that can be reached."""
        n = int(measured["scored"])
        yield Row(where="", quantity="loss.ceiling", value=measured["posterior"], unit="nat", n=n)
        yield Row(where="", quantity="own_token_seen", value=measured["seen"], n=n)


@functools.lru_cache(maxsize=8)
def _base(corpus: Corpus, n_symbols: int, n_triggers: int, noise: str) -> tuple[tuple[str, ...], Tensor, Tensor]:
    """Symbols by id, their share, and the share of each behind each, float64; `noise` is one of them, or a new one.

    Only neighbours that both count make a pair, and a symbol that none follows is followed by the unigram.

    Raises:
        ConfigError: the text has fewer symbols, or lacks the noise.
    """
    documents = corpus.read().documents
    counts = Counter("".join(documents))
    kept = sorted(counts, key=lambda one: (-counts[one], one))[:n_symbols]
    if len(kept) < n_symbols:
        raise ConfigError(f"n_symbols={n_symbols}, and the text has {len(kept)} different characters.")
    if noise and noise not in kept:
        raise ConfigError(
            f"noise_symbol={noise!r} is none of the {n_symbols} most frequent characters; raise n_symbols, or name one."
        )
    triggers = [one for one in kept if one != noise][:n_triggers]
    others = sorted(one for one in kept if one != noise and one not in triggers)
    symbols = (noise, *triggers, *others)
    counted_VV = torch.from_numpy(_pairs(documents, [ord(one) if one else -1 for one in symbols])).double()
    unigram_V = torch.tensor([float(counts[one]) if one else 0.0 for one in symbols], dtype=torch.float64)
    unigram_V /= unigram_V.sum()
    behind_V1 = counted_VV.sum(1, keepdim=True)
    return symbols, unigram_V, torch.where(behind_V1 > 0, counted_VV / behind_V1.clamp(min=1), unigram_V)


def _pairs(documents: Sequence[str], points: Sequence[int]) -> np.ndarray:
    """How often each symbol stands behind each, (V, V); symbols by their code points."""
    n = len(points)
    id_of = np.full(0x110000, n)  # n: a character that does not count
    id_of[[point for point in points if point >= 0]] = [at for at, point in enumerate(points) if point >= 0]
    found = np.zeros((n + 1) * (n + 1), dtype=np.int64)
    for document in documents:
        ids_N = id_of[np.frombuffer(document.encode("utf-32-le"), dtype=np.uint32)]
        found += np.bincount(ids_N[:-1] * (n + 1) + ids_N[1:], minlength=len(found))
    return found.reshape(n + 1, n + 1)[:n, :n]

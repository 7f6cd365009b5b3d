"""k-hop induction: go back k times to what followed the current symbol when it last occurred, and name it.

    2 hops, from the last c: to the c before it and one on, which is b; from that b likewise, which is a. - is nowhere.
    tokens   k2 a b a c b c
    targets   . - - - - b a

Source: Sanford, Hsu, Telgarsky 2024, arXiv:2402.09268, as taken up by Dong, Noci, Khodak, Li 2025, arXiv:2506.01115
(mixit.md 2.8). Unlike the source: nothing is scored at the hop count, and there is no id without a use.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.seeds import generator_for
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS
from partwise.tasks.splits import draw_split, in_split, packed
from partwise.tasks.tables import TABLE_SIZE, most_frequent


@TASKS.register("k_hop")
@dataclass(frozen=True, kw_only=True)
class KHop:
    """Chained retrieval: each hop is an induction head's step, and one input asks for up to `max_hops` of them.

    Ids: symbols, 'does not exist', hop counts. Every symbol's position is scored; where a hop leads nowhere, 'does not
    exist' is the right answer and counts like any other, in the score and in the floors. Scores are split by `hops` and
    by whether the answer `exists`. An answer stands at or before its position and does not depend on what comes after,
    so looking ahead gains nothing and is allowed.

    Args:
        length: symbols in a string; no two neighbours are equal. The input is one longer, for the hop count.
        max_hops: the most hops asked for.
        min_hops: the fewest; the number is uniform between the two. 0 hops name the symbol itself.
        alphabet: how many symbols there are.
    """

    length: int = 50
    max_hops: int = 4
    min_hops: int = 0
    alphabet: int = 4

    def __post_init__(self) -> None:
        if not 0 <= self.min_hops <= self.max_hops:
            raise ConfigError(f"min_hops={self.min_hops} and max_hops={self.max_hops}: 0 <= min_hops <= max_hops.")
        if self.alphabet < 3:
            raise ConfigError(
                f"alphabet={self.alphabet}: with fewer than 3 symbols, unequal neighbours leave no choice."
            )
        if self.length < self.max_hops + 2:
            raise ConfigError(
                f"length={self.length}: {self.max_hops} hops need a string of {self.max_hops + 2} or more, since the "
                "third symbol is the first that has one to go."
            )

    def build(self, *, seed: int) -> "KHopData":
        return KHopData(self, seed)


class KHopData:
    ceiling = None
    splits_overlap = None

    def __init__(self, task: KHop, seed: int):
        self.task = task
        self.nowhere = task.alphabet  # the id of 'does not exist'
        self.no_hops = task.alphabet + 1  # the id of k = 0
        self.shape = TaskShape(length=task.length + 1, vocabulary=self.no_hops + task.max_hops + 1)
        known = self.sample(TABLE_SIZE, split="train", generator=generator_for(seed, "tables"))
        self._tables = {
            name: most_frequent(seen_BL, known.targets_BL, n_seen=n_seen, n_answers=task.alphabet + 1)
            for name, (seen_BL, n_seen) in self._seen(known.tokens_BL).items()
        }

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        tokens_BL = draw_split(n, split, lambda count: self._draw(count, generator), member=self._member)
        hops_B1 = tokens_BL[:, :1] - self.no_hops
        place_BL = self._places(tokens_BL[:, 1:], hops_B1)
        targets_BL = tokens_BL.gather(1, place_BL).where(place_BL > 0, self.nowhere)
        targets_BL[:, 0] = IGNORE
        return Batch(
            tokens_BL=tokens_BL,
            targets_BL=targets_BL,
            marks={"answer": torch.arange(1, self.shape.length).repeat(n, 1), "source": place_BL[:, 1:]},
            strata={"hops": hops_B1[:, 0], "exists": (place_BL > 0).long()},
        )

    def _draw(self, n: int, generator: torch.Generator) -> Tensor:
        task = self.task
        hops_B1 = torch.randint(task.min_hops, task.max_hops + 1, (n, 1), generator=generator)
        first_B1 = torch.randint(task.alphabet, (n, 1), generator=generator)
        onward_BN = torch.randint(1, task.alphabet, (n, task.length - 1), generator=generator)
        symbols_BN = torch.cat((first_B1, onward_BN), dim=1).cumsum(1) % task.alphabet
        return torch.cat((self.no_hops + hops_B1, symbols_BN), dim=1)

    def _member(self, split: Split, tokens_BL: Tensor) -> Tensor:
        return in_split(split, torch.cat((tokens_BL[:, :1], packed(tokens_BL[:, 1:], self.task.alphabet)), dim=1))

    def _places(self, symbols_BN: Tensor, hops_B1: Tensor) -> Tensor:
        """Where the hops from each position end, (B, L); 0, the place of the hop count, is nowhere and leads there."""
        place_N = torch.arange(1, self.shape.length)
        is_symbol_BAN = symbols_BN[:, None] == torch.arange(self.task.alphabet)[:, None]
        latest_BAN = place_N.where(is_symbol_BAN, 0).cummax(-1).values
        # Neighbours differ, so the latest occurrence up to the position before is the latest earlier one.
        before_BN = latest_BAN[..., :-1].gather(1, symbols_BN[:, None, 1:])[:, 0]
        hop_BL = torch.zeros(len(symbols_BN), self.shape.length, dtype=torch.int64)
        hop_BL[:, 2:] = (before_BN + 1).where(before_BN > 0, 0)

        place_BL = torch.arange(self.shape.length).expand_as(hop_BL)
        for bit in range(self.task.max_hops.bit_length()):  # hop_BL goes 1, 2, 4, ... hops at once
            place_BL = hop_BL.gather(1, place_BL).where((hops_B1 >> bit & 1).bool(), place_BL)
            hop_BL = hop_BL.gather(1, hop_BL)
        return place_BL

    def _seen(self, tokens_BL: Tensor) -> dict[str, tuple[Tensor, int]]:
        """What each floor looks at, as one number, and how many there are."""
        length, n_hops, alphabet = self.shape.length, self.task.max_hops + 1, self.task.alphabet
        place_BL = torch.arange(length) * n_hops + tokens_BL[:, :1] - self.no_hops
        symbol_BL = tokens_BL.clamp_max(alphabet - 1)
        return {
            "best_by_position_and_hops": (place_BL, length * n_hops),
            "best_by_position_hops_and_symbol": (place_BL * alphabet + symbol_BL, length * n_hops * alphabet),
        }

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """The most frequent answer by position and number of hops; by these and the current symbol. Counted over
        TABLE_SIZE training examples."""
        return {name: self._tables[name][seen_BL] for name, (seen_BL, _) in self._seen(batch.tokens_BL).items()}

    def referee(self, tokens: list[int]) -> list[int]:
        """Walk back by hand, hop by hop."""
        targets = [IGNORE]
        for start in range(1, len(tokens)):
            place = start
            for _ in range(tokens[0] - self.no_hops):
                earlier = [one for one in range(1, place) if tokens[one] == tokens[place]] if place else []
                place = earlier[-1] + 1 if earlier else 0
            targets.append(tokens[place] if place else self.nowhere)
        return targets

"""Brackets: after a string of brackets, say whether it is balanced: ')' if it is, '(' if not.

    tokens   ( ( ) ) ?        ( ) ) ( ( ) ?
    targets  . . . . )        . . . . . . (

Source: the Dyck-1 task of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, after Zhong & Andreas 2024, arXiv:2410.04368
(mixit.md 2.5). Unlike there: a share of the examples is hard, with equal counts and right ends and yet unbalanced
inside, and the headline is read on these beside the balanced ones. A balanced string is drawn uniformly from all of its
length, where the published one comes from a recursion, and at most 3 swaps and 12 flips are made, where theirs have no
bound (the balanced share, and what counting gets right, agree within .002). Strings of up to 10 brackets, so few that
each is met again and again, are only trained on.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.rows import Row
from partwise.seeds import generator_for
from partwise.shapes import Split, TaskShape
from partwise.tasks import ACCURACY, TASKS, Metric
from partwise.tasks.splits import draw_split_each, in_split, packed
from partwise.tasks.tables import TABLE_SIZE, most_frequent

PAD, OPEN, CLOSE, ASK = range(4)
BALANCED, UNBALANCED, HARD = range(3)  # the stratum `kind`
SHORTEST_HARD = 3  # pairs; ())(() is the only hard string as short
SHORT = 10  # brackets: up to here a string is only trained on
SWAPS, FLIPS = 3, 12  # the most of either that damage a string


@TASKS.register("brackets")
@dataclass(frozen=True, kw_only=True)
class Brackets:
    """Is a string of one kind of bracket balanced? Counting tells most strings apart, but not the hard ones.

    `hard_share` of the examples are hard: as many '(' as ')', '(' first and ')' last, and unbalanced; uniform over all
    such strings of 3 to max_pairs pairs. Of the rest, as in the published task, a third are random brackets, 1 to
    2 * max_pairs of them; a third are balanced, 1 to max_pairs pairs; a third are balanced before damage: at least j
    times with probability 3^-j two brackets swap places, and with 2^-j one is flipped (two, in two cases of three).

    The headline is `hard_accuracy`, the mean of the accuracy on balanced and on hard strings: who counts and looks at
    the ends has exactly 1/2, and who also weights each bracket by its place, as a fixed mixing can, has .87. With
    hard_share=0 it is the published accuracy over all examples, nearly all of which counting gets right. Scores are
    split by `kind`: 0 balanced, 1 unbalanced in a way that counts or ends show, 2 hard.

    Args:
        max_pairs: the most pairs a balanced string has.
        hard_share: of the examples, in every split; what is hard by chance comes on top.
    """

    max_pairs: int = 10
    hard_share: float = 0.25

    def __post_init__(self) -> None:
        if 2 * self.max_pairs <= SHORT:
            raise ConfigError(
                f"max_pairs={self.max_pairs}: at least {SHORT // 2 + 1} was expected, since strings of up to {SHORT} "
                "brackets are too few to be held back from training."
            )
        if not 0 <= self.hard_share < 1:
            raise ConfigError(f"hard_share={self.hard_share}: a share from 0 to below 1 was expected.")

    def build(self, *, seed: int) -> "BracketsData":
        return BracketsData(self, seed)


class BracketsData:
    ceiling = None
    splits_overlap = None

    def __init__(self, task: Brackets, seed: int):
        self.task = task
        self.shape = TaskShape(length=2 * task.max_pairs + 1, vocabulary=4)
        self.headline = Metric(name="hard_accuracy") if task.hard_share else ACCURACY
        self._learn_floors(self.sample(TABLE_SIZE, split="train", generator=generator_for(seed, "tables")))

    def _learn_floors(self, known: Batch) -> None:
        answer_B = known.targets_BL.gather(1, known.marks["answer"][:, None])[:, 0]
        self._majority = most_frequent(torch.zeros_like(answer_B), answer_B, n_seen=1, n_answers=CLOSE + 1)
        counts_B, ends_B, depth_B = _signs(known.tokens_BL)
        unclear_B = counts_B & ends_B
        depth_B, order_B = depth_B[unclear_B].sort()
        lost_B = torch.where(answer_B[unclear_B][order_B] == CLOSE, 1, -1).cumsum(0)  # by calling these unbalanced
        self._shallow = depth_B[lost_B.argmin()]

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        return next(self.sample_each(n, split=split, generators=(generator,)))

    def sample_each(self, n: int, *, split: Split, generators: Sequence[torch.Generator]) -> Iterator[Batch]:
        whole = self._batch(draw_split_each(n, split, self._draw, generators, member=_member))
        return (whole.rows(at, at + n) for at in range(0, len(whole), n))

    def _batch(self, tokens_BL: Tensor) -> Batch:
        ask_B, height_BL = _read(tokens_BL)
        counts_B, ends_B = height_BL[:, -1] == 0, _ends(tokens_BL, ask_B)
        balanced_B = counts_B & ~(height_BL < 0).any(-1)
        targets_BL = torch.full_like(tokens_BL, IGNORE)
        targets_BL.scatter_(1, ask_B[:, None], _answer(balanced_B)[:, None])
        kind_B = torch.full_like(ask_B, UNBALANCED).masked_fill(counts_B & ends_B, HARD)
        return Batch(
            tokens_BL=tokens_BL,
            targets_BL=targets_BL,
            lengths_B=ask_B + 1,
            marks={"answer": ask_B},
            strata={"kind": kind_B.masked_fill(balanced_B, BALANCED)},
        )

    def _draw(self, n: int, generators: Sequence[torch.Generator]) -> Tensor:
        task, place_L = self.task, torch.arange(self.shape.length)
        size = (n, 6 + 2 * SWAPS + FLIPS + self.shape.length)
        drawn = torch.cat([torch.rand(size, generator=generator, dtype=torch.float64) for generator in generators])
        chance_6B1, places_BK, keys_BL = drawn.split((6, 2 * SWAPS + FLIPS, self.shape.length), dim=1)
        kind_B1, size_B1, length_B1, swaps_B1, flips_B1, twice_B1 = chance_6B1.split(1, dim=1)

        hard_B1 = kind_B1 < task.hard_share
        third_B1 = 3 * (kind_B1 - task.hard_share) / (1 - task.hard_share)
        random_B1, damaged_B1 = (third_B1 < 1) & ~hard_B1, third_B1 >= 2
        fewest_B1 = torch.where(hard_B1, SHORTEST_HARD, 1)
        pairs_B1 = fewest_B1 + (size_B1 * (task.max_pairs + 1 - fewest_B1)).long()
        length_B1 = torch.where(random_B1, 1 + (length_B1 * 2 * task.max_pairs).long(), 2 * pairs_B1)

        steps_BL = torch.where(random_B1, (keys_BL < 0.5).long() * 2 - 1, _paired(pairs_B1, hard_B1, keys_BL))
        steps_BL = _damaged(
            steps_BL,
            (places_BK * length_B1).long(),
            n_swaps_B1=damaged_B1 * (-swaps_B1.log() / math.log(3)).long(),
            n_flips_B1=damaged_B1 * (-flips_B1.log2()).long() * torch.where(twice_B1 < 2 / 3, 2, 1),
        )
        tokens_BL = torch.where(steps_BL > 0, OPEN, CLOSE).masked_fill_(place_L > length_B1, PAD)
        return tokens_BL.scatter_(1, length_B1, ASK)

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """The more frequent answer in training; counting; counting and the first and last bracket; and these with the
        depth, a count of brackets weighted by their places: balanced where it is above what parts best in training."""
        counts_B, ends_B, depth_B = _signs(batch.tokens_BL)
        said = {
            "majority": self._majority.expand(len(batch)),
            "counting": _answer(counts_B),
            "counting_and_ends": _answer(counts_B & ends_B),
            "counting_ends_and_depth": _answer(counts_B & ends_B & (depth_B > self._shallow)),
        }
        return {name: answer_B[:, None].expand_as(batch.tokens_BL) for name, answer_B in said.items()}

    def derived(self, measured: Mapping[str, float]) -> Iterator[Row]:
        """hard_accuracy, of the model and of each floor; a kind that was not met does not count."""
        for quantity in [name for name in measured if name == "accuracy" or name.startswith("accuracy.floor.")]:
            kinds = [f"kind={kind}/{quantity}" for kind in (BALANCED, HARD)]
            met = [measured[kind] for kind in kinds if kind in measured] or [measured[quantity]]
            yield Row(where="", quantity=f"hard_{quantity}", value=sum(met) / len(met))

    def referee(self, tokens: list[int]) -> list[int]:
        """Cross out () until nothing changes; what is balanced vanishes."""
        text = "".join("_()?"[token] for token in tokens).rstrip("?")
        while "()" in text:
            text = text.replace("()", "")
        return [IGNORE] * (len(tokens) - 1) + [OPEN if text else CLOSE]


def _paired(pairs_B1: Tensor, hard_B1: Tensor, keys_BL: Tensor) -> Tensor:
    """Steps of +1 for '(' and -1 for ')', from the order of random keys: strings of so many pairs, each uniform over
    all that are balanced, or over all that are hard. What stands behind them means nothing.

    Balanced (cycle lemma, Dvoretzky & Motzkin 1947): t times +1 and t + 1 times -1 in any order have exactly one
    rotation that stays at 0 or above until its last step, and each balanced string comes from equally many orders.

    Hard (reflection): t times either, +1 first and -1 last, that reach -1 on the way. With the sign turned from there
    on, they are all orders of t - 1 times +1 and t + 1 times -1 with +1 at both ends, which must pass -1.
    """
    place_L = torch.arange(keys_BL.shape[1])
    n_steps_B1 = torch.where(hard_B1, 2 * pairs_B1, 2 * pairs_B1 + 1)
    is_end_BL = hard_B1 & ((place_L == 0) | (place_L == n_steps_B1 - 1))
    keys_BL = keys_BL.masked_fill(place_L >= n_steps_B1, 2.0).masked_fill_(is_end_BL, -1.0)
    n_up_B1 = pairs_B1 - hard_B1.long()
    steps_BL = torch.where(keys_BL < keys_BL.sort(-1).values.gather(1, n_up_B1), 1, -1)

    height_BL = steps_BL.cumsum(1)
    lowest_B1 = height_BL.masked_fill(place_L >= n_steps_B1, 0).argmin(-1, keepdim=True)
    passing_B1 = (height_BL == -1).to(torch.int8).argmax(-1, keepdim=True)
    steps_BL = torch.where(hard_B1 & (place_L > passing_B1), -steps_BL, steps_BL)
    from_BL = place_L + (lowest_B1 + 1).masked_fill_(hard_B1, 0)
    past_BL = from_BL >= n_steps_B1
    return steps_BL.gather(1, torch.where(past_BL, from_BL - n_steps_B1, from_BL))


def _damaged(steps_BL: Tensor, places_BK: Tensor, *, n_swaps_B1: Tensor, n_flips_B1: Tensor) -> Tensor:
    """The first so many pairs of places swapped, one after the other; then the next so many places flipped."""
    one_BS, other_BS, flip_BF = places_BK.split((SWAPS, SWAPS, FLIPS), dim=1)
    other_BS = torch.where(torch.arange(SWAPS) < n_swaps_B1, other_BS, one_BS)
    for pair_B2 in torch.stack((one_BS, other_BS), dim=-1).unbind(1):
        steps_BL = steps_BL.scatter(1, pair_B2, steps_BL.gather(1, pair_B2.flip(1)))
    count_BL = torch.zeros_like(steps_BL).scatter_add_(1, flip_BF, (torch.arange(FLIPS) < n_flips_B1).long())
    return torch.where((count_BL & 1).bool(), -steps_BL, steps_BL)


def _read(tokens_BL: Tensor) -> tuple[Tensor, Tensor]:
    """Where '?' stands, and how many more '(' than ')' there were up to each position."""
    ask_B = (tokens_BL == ASK).to(torch.int8).argmax(-1)
    return ask_B, ((tokens_BL == OPEN).long() - (tokens_BL == CLOSE).long()).cumsum(1)


def _ends(tokens_BL: Tensor, ask_B: Tensor) -> Tensor:
    """Whether the first bracket is '(' and the last ')'."""
    return (tokens_BL[:, 0] == OPEN) & (tokens_BL.gather(1, ask_B[:, None] - 1)[:, 0] == CLOSE)


def _signs(tokens_BL: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What tells of balance without being it: equal counts; right ends; and the depth, mean height / sqrt(length),
    which hangs little on the length for a random balanced string."""
    ask_B, height_BL = _read(tokens_BL)
    used_BL = tokens_BL.ne(PAD) & tokens_BL.ne(ASK)
    depth_B = (height_BL * used_BL).sum(-1) / ask_B.double() ** 1.5
    return height_BL[:, -1] == 0, _ends(tokens_BL, ask_B), depth_B


def _member(split: Split, tokens_BL: Tensor) -> Tensor:
    """By the hash, and short strings always to train."""
    is_short_B = (tokens_BL[:, : SHORT + 1] == ASK).any(-1)
    return torch.where(is_short_B, split == "train", in_split(split, packed(tokens_BL, 4)))


def _answer(balanced_B: Tensor) -> Tensor:
    return torch.where(balanced_B, CLOSE, OPEN)

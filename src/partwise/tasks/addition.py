"""Decimal addition: two numbers, then their sum, least significant digit first; each digit is given the ones before.

    58 + 67 = 125
    tokens   8 5 + 7 6 = 5' 2' 1'
    targets  . . . . . 5' 2' 1' stop

Digits of the answer (5') have ids of their own. A sum with no last carry is one digit shorter, and its input ends in
stop, which is not scored.

Source: the addition task of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, after Zhong & Andreas 2024,
arXiv:2410.04368 (mixit.md 2.1). Unlike the published code: the first answer digit, given at '=', is trained and scored
too, and what follows stop is not (`published_scoring` gives theirs); the headline is exact match, since more than half
of the digits are right with every carry left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.seeds import generator_for
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS, Metric
from partwise.tasks.splits import draw_split
from partwise.tasks.tables import TABLE_SIZE, most_frequent

PLUS, EQUALS, PAD, ANSWER, STOP = 10, 11, 12, 20, 30  # the published ids; ANSWER + d is digit d of a sum
VOCABULARY = STOP + 1
MOST_DIGITS = 18  # of which two numbers still add up in 64 bits


@TASKS.register("addition")
@dataclass(frozen=True, kw_only=True)
class Addition:
    """Adding two numbers of equally many digits, neither beginning with 0, all answer digits in one pass.

    Scores are split by `digit`, how many digits of the answer came before (stop counts as one), and by `carry_chain`,
    over how many digits the farthest carry goes: 0 without any, 1 where none is passed on, one more for each pair of
    digits that makes 9 and hands on what it was given.

    Args:
        n_digits: of either number.
        published_scoring: train and score exactly what follows an answer digit or stop: the second answer digit to
            stop, and the padding after stop where the sum has no last carry (always n_digits + 1 positions). The first
            answer digit is then neither trained nor scored.
    """

    n_digits: int = 5
    published_scoring: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.n_digits <= MOST_DIGITS:
            raise ConfigError(f"n_digits={self.n_digits}: from 1 to {MOST_DIGITS} were expected.")

    def build(self, *, seed: int) -> "AdditionData":
        return AdditionData(self, seed)


class AdditionData:
    ceiling = None
    splits_overlap = None
    headline = Metric(name="exact_match")

    def __init__(self, task: Addition, seed: int):
        self.task = task
        self.equals = 2 * task.n_digits + 1  # its place
        self.shape = TaskShape(length=3 * task.n_digits + 3, vocabulary=VOCABULARY, may_look_ahead=False)
        known = self.sample(TABLE_SIZE, split="train", generator=generator_for(seed, "tables"))
        self._tables = {
            name: most_frequent(seen_BL, known.targets_BL, n_seen=n_seen, n_answers=VOCABULARY)
            for name, (seen_BL, n_seen) in self._seen(known.tokens_BL).items()
        }

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        n_digits, equals = self.task.n_digits, self.equals
        low, high = 10 ** (n_digits - 1), 10**n_digits
        pair_B2 = draw_split(n, split, lambda count: torch.randint(low, high, (count, 2), generator=generator))
        digits_B2N = pair_B2[..., None] // 10 ** torch.arange(n_digits) % 10
        sum_BN = pair_B2.sum(-1, keepdim=True) // 10 ** torch.arange(n_digits + 1) % 10
        is_short_B = sum_BN[:, -1] == 0

        whole_BL = torch.full((n, self.shape.length + 1), STOP)
        whole_BL[:, :n_digits] = digits_B2N[:, 0]
        whole_BL[:, n_digits] = PLUS
        whole_BL[:, n_digits + 1 : equals] = digits_B2N[:, 1]
        whole_BL[:, equals] = EQUALS
        whole_BL[:, equals + 1 : -1] = ANSWER + sum_BN
        whole_BL[is_short_B, -2:] = torch.tensor([STOP, PAD])

        tokens_BL, next_BL = whole_BL[:, :-1].contiguous(), whole_BL[:, 1:]
        place_L = torch.arange(self.shape.length)
        ours_BL = (place_L >= equals) & (tokens_BL != STOP)
        scored_BL = tokens_BL >= ANSWER if self.task.published_scoring else ours_BL
        answer_N = torch.arange(n_digits)
        return Batch(
            tokens_BL=tokens_BL,
            targets_BL=next_BL.where(scored_BL, IGNORE),
            marks={
                "answer": (equals + answer_N).repeat(n, 1),
                "first": answer_N.repeat(n, 1),
                "second": (n_digits + 1 + answer_N).repeat(n, 1),
            },
            strata={
                "digit": (place_L - equals).clamp_min(0).repeat(n, 1),
                "carry_chain": _carry_chain(digits_B2N.sum(1)),
            },
        )

    def _seen(self, tokens_BL: Tensor) -> dict[str, tuple[Tensor, int]]:
        """What each floor looks at, as one number, and how many there are."""
        length = self.shape.length
        place_BL = torch.arange(length).expand_as(tokens_BL)
        class_BL = (tokens_BL >= ANSWER).long() + (tokens_BL == STOP)
        return {
            "best_by_position": (place_BL, length),
            "best_by_position_and_class": (place_BL * 3 + class_BL, length * 3),
            "best_by_position_and_token": (place_BL * VOCABULARY + tokens_BL, length * VOCABULARY),
        }

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """The most frequent next token by position; by position and class of the current token (question, answer
        digit, stop); by position and current token, all three counted over TABLE_SIZE training examples; and adding
        digit by digit with every carry left out."""
        tokens_BL, n_digits = batch.tokens_BL, self.task.n_digits
        said = {name: self._tables[name][seen_BL] for name, (seen_BL, _) in self._seen(tokens_BL).items()}
        total_BN = tokens_BL[:, :n_digits] + tokens_BL[:, n_digits + 1 : self.equals]
        said["no_carry"] = torch.where(tokens_BL == STOP, PAD, STOP)
        said["no_carry"][:, self.equals : self.equals + n_digits] = ANSWER + total_BN % 10
        return said

    def referee(self, tokens: list[int]) -> list[int]:
        """Add the two numbers, and read the sum out digit by digit."""
        plus, equals = tokens.index(PLUS), tokens.index(EQUALS)
        first, second = tokens[:plus], tokens[plus + 1 : equals]
        total = sum(int("".join(map(str, reversed(digits)))) for digits in (first, second))
        said = [ANSWER + int(digit) for digit in reversed(str(total))] + [STOP, PAD]
        targets = [IGNORE] * equals + said[: len(tokens) - equals]
        if self.task.published_scoring:
            targets[equals] = IGNORE
        return [IGNORE if target == PAD and not self.task.published_scoring else target for target in targets]


def _carry_chain(total_BN: Tensor) -> Tensor:
    """The length of the longest chain: a carry is made where two digits make 10 or more, and goes on over 9s."""
    place_N = torch.arange(total_BN.shape[1])
    start_BN = place_N.where(total_BN != 9, 0).cummax(-1).values  # the last place that does not just hand on
    reach_BN = (place_N - start_BN + 1) * (total_BN.gather(1, start_BN) >= 10)
    return reach_BN.max(-1).values

"""Three splits of an endless task: by a stable hash of the example's own content, so that they never share one."""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from partwise.errors import ConfigError
from partwise.shapes import Split

BUCKETS: dict[Split, tuple[int, int]] = {"test": (0, 1), "validation": (1, 2), "train": (2, 16)}  # sixteenths
# of splitmix64 (Steele, Lea, Flood 2014), signed; products wrap at 64 bits, the same on every machine
_FACTORS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)


def bucket_of(content_BL: Tensor) -> Tensor:
    """Which sixteenth each example belongs to, int64 (B,): a hash of its integers, column by column.

    Real numbers go in by their bits.
    """
    if content_BL.is_floating_point():
        content_BL = content_BL.double().view(torch.int64)
    hashed_B = torch.zeros(len(content_BL), dtype=torch.int64, device=content_BL.device)
    for column_B in content_BL.to(torch.int64).unbind(1):
        hashed_B = _stirred(hashed_B ^ (column_B + 0x9E3779B9))
    return hashed_B & 15


def _stirred(hashed_B: Tensor) -> Tensor:
    """Every bit of it depends on every bit: few columns of small numbers must fill all the buckets alike."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        hashed_B = (hashed_B ^ (hashed_B >> shift)) * factor
    return hashed_B ^ (hashed_B >> 31)


def in_split(split: Split, content_BL: Tensor) -> Tensor:
    """Which examples belong to the split, bool (B,)."""
    low, high = BUCKETS[split]
    bucket_B = bucket_of(content_BL)
    return (bucket_B >= low) & (bucket_B < high)


def packed(symbols_BL: Tensor, base: int) -> Tensor:
    """The same content in as few columns of int64 as hold it, each symbol below `base`: a quick one to hash."""
    most = _most_symbols(base)
    powers_L = base ** torch.arange(min(most, symbols_BL.shape[1]), device=symbols_BL.device)
    return torch.stack([part_BL @ powers_L[: part_BL.shape[1]] for part_BL in symbols_BL.split(most, dim=1)], dim=1)


@functools.cache
def _most_symbols(base: int) -> int:
    return next(width for width in range(63, 0, -1) if base**width <= 2**63)


def draw_split(
    n: int,
    split: Split,
    draw: Callable[[int], Tensor],
    *,
    member: Callable[[Split, Tensor], Tensor] = in_split,
) -> Tensor:
    """n examples of one split, (n, L): draw, keep those that belong to it, until there are enough.

    Args:
        n: how many.
        split: of which sixteenths.
        draw: gives so many random examples, each row the whole content of one.
        member: which examples belong to the split, bool (n,); the usual hash of every column takes time by the column.

    Raises:
        ConfigError: the task is so small that the split is empty (nothing in 200 draws).
    """
    kept, have = [], 0
    for _ in range(200):
        content_BL = draw(_enough(n - have, split))
        content_BL = content_BL[member(split, content_BL)]
        kept.append(content_BL)
        have += len(content_BL)
        if have >= n:
            return torch.cat(kept)[:n]
    raise ConfigError(f"no example of this task falls into the {split} split: it is too small to be split.")


def draw_split_each(
    n: int,
    split: Split,
    draw: Callable[[int, Sequence[torch.Generator]], Tensor],
    generators: Sequence[torch.Generator],
    *,
    member: Callable[[Split, Tensor], Tensor] = in_split,
) -> Tensor:
    """What `draw_split` gives for one generator after another, bit for bit, (generators n, L), and in less time:
    examples are small, and an operation on many batches of them costs little more than one on one.

    Args:
        n, split, member: as there.
        draw: gives so many random examples from each generator, those of one after those of another.
        generators: of whom each has its own n.
    """
    content_BL = draw(_enough(n, split), generators)
    parts = zip(
        generators, content_BL.chunk(len(generators)), member(split, content_BL).chunk(len(generators)), strict=True
    )
    return torch.cat([_completed(n, split, draw, generator, own[it_is], member) for generator, own, it_is in parts])


def _completed(n: int, split: Split, draw, generator: torch.Generator, first_BL: Tensor, member) -> Tensor:
    if len(first_BL) < n:
        more_BL = draw_split(n - len(first_BL), split, lambda count: draw(count, (generator,)), member=member)
        first_BL = torch.cat((first_BL, more_BL))
    return first_BL[:n]


def _enough(n: int, split: Split) -> int:
    """So many draws nearly always hold n of the split."""
    low, high = BUCKETS[split]
    return int(n * 16 / (high - low) * 1.1) + 16

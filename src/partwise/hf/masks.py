"""What an attention mask means here: a masked position is not there. The others of its row count from 0 on, so a row
is computed as it would be alone, wherever its padding is (MixiT: row t - pad of the matrix; a learned position
likewise)."""

import torch
from torch import Tensor

from partwise.batch import Batch
from partwise.errors import ConfigError


def used(tokens_BL: Tensor, attention_mask: Tensor | None) -> Tensor | None:
    """The mask as bool (B, L), or None where nothing is masked.

    Raises:
        ConfigError: it has another shape than the tokens, or a row without any position in use.
    """
    if attention_mask is None:
        return None
    if attention_mask.shape != tokens_BL.shape:
        given, wanted = tuple(attention_mask.shape), tuple(tokens_BL.shape)
        raise ConfigError(
            f"an attention mask of shape {given} for tokens of shape {wanted}: one of the same was expected."
        )
    used_BL = attention_mask != 0
    empty_B = ~used_BL.any(-1)
    if bool(empty_B.any()):
        raise ConfigError(f"row {int(empty_B.nonzero()[0])} of the attention mask leaves nothing to read.")
    return None if bool(used_BL.all()) else used_BL


def without_padding(tokens_BL: Tensor, pad: int | None) -> Tensor | None:
    """The mask of tokens that come without one: what stands before the first or after the last that is no padding is
    not in use. None where nothing is masked."""
    if pad is None:
        return None
    real_BL = (tokens_BL != pad).long()
    begun_BL, goes_on_BL = real_BL.cumsum(-1) > 0, real_BL.flip(-1).cumsum(-1).flip(-1) > 0
    return used(tokens_BL, begun_BL & goes_on_BL)


def moved_left(tokens_BL: Tensor, used_BL: Tensor) -> tuple[Batch, Tensor]:
    """The positions in use, side by side from the left, padding behind them, cut to the longest row; and for each
    position of the input where it stands there, (B, L) (for a masked one, the one before it)."""
    order_BL = torch.argsort((~used_BL).to(torch.int8), dim=-1, stable=True)
    lengths_B = used_BL.sum(-1)
    moved_BL = tokens_BL.gather(1, order_BL)[:, : int(lengths_B.max())]
    place_BL = (used_BL.cumsum(-1) - 1).clamp_min(0)
    return Batch(tokens_BL=moved_BL, targets_BL=moved_BL, lengths_B=lengths_B), place_BL

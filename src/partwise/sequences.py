"""Rows of a token stream, as a language model reads them: tokens, and as targets the tokens that follow."""

import numpy as np
import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.encoders import Codec
from partwise.errors import ConfigError


class Packed:
    """The stream cut into rows of `length` tokens, one after another; the rest that fills no row is left out.

    Args:
        stream_N: of text.py.
        length: L.
        codec: that made it.
        name: of the text, for the message.

    Raises:
        ConfigError: the stream does not fill a row.
    """

    def __init__(self, stream_N: np.ndarray, length: int, codec: Codec, name: str):
        self.stream_N, self.length = stream_N, length
        if len(stream_N) <= length:
            raise ConfigError(
                f"{name}: {len(stream_N)} tokens do not fill a row of {length} and the token after it; "
                "give more text, or shorter rows (task.length)."
            )

    def __len__(self) -> int:
        return (len(self.stream_N) - 1) // self.length

    def numbers(self, row_B: Tensor) -> Batch:
        """The rows of these numbers."""
        return self._from(row_B * self.length)

    def at_random(self, n: int, generator: torch.Generator) -> Batch:
        """n rows that begin anywhere."""
        return self._from(torch.randint(len(self.stream_N) - self.length, (n,), generator=generator))

    def _from(self, start_B: Tensor) -> Batch:
        places_BL = start_B[:, None] + torch.arange(self.length + 1)
        ids_BL = torch.from_numpy(self.stream_N[places_BL.numpy()].astype(np.int64))
        return Batch(tokens_BL=ids_BL[:, :-1], targets_BL=ids_BL[:, 1:])


class OneDocument:
    """A row a document: separator, then its first tokens, then padding; its end is predicted if it is reached.

    Args and errors as of `Packed`; any text fills a row.
    """

    def __init__(self, stream_N: np.ndarray, length: int, codec: Codec, name: str):
        self.stream_N, self.length, self.pad = stream_N, length, codec.pad
        separator_D = torch.from_numpy(np.flatnonzero(stream_N == codec.separator))
        self.start_R, self.end_R = separator_D[:-1], separator_D[1:]

    def __len__(self) -> int:
        return len(self.start_R)

    def numbers(self, row_B: Tensor) -> Batch:
        """The rows of these numbers."""
        start_B, end_B = self.start_R[row_B], self.end_R[row_B]
        lengths_B = (end_B - start_B).clamp(max=self.length)
        places_BL = start_B[:, None] + torch.arange(self.length + 1)
        ids_BL = torch.from_numpy(self.stream_N[places_BL.clamp(max=len(self.stream_N) - 1).numpy()].astype(np.int64))
        padding_BL = torch.arange(self.length) >= lengths_B[:, None]
        return Batch(
            tokens_BL=ids_BL[:, :-1].masked_fill(padding_BL, self.pad),
            targets_BL=ids_BL[:, 1:].masked_fill(padding_BL, IGNORE),
            lengths_B=lengths_B,
        )

    def at_random(self, n: int, generator: torch.Generator) -> Batch:
        """n rows, with replacement."""
        return self.numbers(torch.randint(len(self), (n,), generator=generator))

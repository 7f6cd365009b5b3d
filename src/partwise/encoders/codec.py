"""What a tokenizer of the package `tokenizers` looks like to the lab."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from partwise.optional import imported
from partwise.records import write_text

FILE = "tokenizer.json"  # in a run's folder; `tokenizers` and `transformers` read it


class TokenizerCodec:
    """See `Codec`.

    Args:
        plain: the tokenizer, as JSON.
        separator: its token that stands between documents.
        pad: its token that fills rows up.
    """

    def __init__(self, plain: str, *, separator: str, pad: str):
        tokenizers: Any = imported("tokenizers", extra="hf", what="this encoder")
        self.plain = plain
        self._tokenizer = tokenizers.Tokenizer.from_str(plain)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True  # a text that holds the name of a special token means its letters
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self.n_ids = max(vocabulary.values()) + 1
        self.separator, self.pad = vocabulary[separator], vocabulary[pad]
        self.bytes_V = _bytes_of(json.loads(plain), vocabulary, self.n_ids)
        self.digest = hashlib.sha256(f"{plain}:{separator}:{pad}".encode()).hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int32) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode([id for id in ids if id not in (self.separator, self.pad)])

    def keep(self, folder: Path) -> None:
        write_text(folder / FILE, self.plain)


def _bytes_of(plain: dict[str, Any], vocabulary: dict[str, int], n_ids: int) -> np.ndarray | None:
    """Of a byte-level tokenizer, in which each letter of a token's name is a byte; None for another."""
    steps = [plain["pre_tokenizer"] or {}]
    steps = steps[0].get("pretokenizers", steps)
    byte_level = [step for step in steps if step.get("type") == "ByteLevel"]
    if not byte_level or plain["normalizer"] is not None or any(step["add_prefix_space"] for step in byte_level):
        return None
    special = {token["content"] for token in plain["added_tokens"] if token["special"]}
    bytes_V = np.zeros(n_ids, dtype=np.int64)
    for token, id in vocabulary.items():
        bytes_V[id] = 0 if token in special else len(token)
    return bytes_V

"""Words: one token a word, for the words that are most frequent in the training split; punctuation counts as words."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from partwise.encoders import ENCODERS
from partwise.errors import ConfigError
from partwise.text.digest import text_digest
from partwise.user_cache import cached

PAD, SEPARATOR, UNKNOWN, FIRST = range(4)
_WORD = re.compile(r"\w+(?:'\w+)?|[^\w\s]")


@ENCODERS.register("words")
@dataclass(frozen=True, kw_only=True)
class Words:
    """The most frequent lower-cased words, one token each; every other word is the same unknown one.

    A word is letters and digits, with what follows an apostrophe inside it (don't); each other sign is one by itself.
    What is decoded is words with spaces between, not the text. Learned from the training split; needs no package.

    Args:
        vocabulary: ids, with padding, separator and the unknown word.
    """

    version: ClassVar[int] = 1

    vocabulary: int = 8192

    def __post_init__(self) -> None:
        if self.vocabulary <= FIRST:
            raise ConfigError(f"vocabulary is {self.vocabulary}: at least {FIRST + 1} ids were expected.")

    def build(self, documents: Sequence[str]) -> "WordCodec":
        """Counted once on this machine; words of equal counts in the order of the alphabet."""

        def write(path: Path) -> None:
            path.write_text(json.dumps(self._learned(documents)), encoding="utf-8")

        name = f"encoders/words-{self.version}-{self.vocabulary}-{text_digest(documents)}.json"
        return WordCodec(json.loads(cached(name, write).read_text(encoding="utf-8")))

    def _learned(self, documents: Sequence[str]) -> list[str]:
        counts: Counter[str] = Counter()
        for document in documents:
            counts.update(words_of(document))
        return sorted(counts, key=lambda word: (-counts[word], word))[: self.vocabulary - FIRST]


class WordCodec:
    """See `Codec`."""

    separator, pad, bytes_V = SEPARATOR, PAD, None

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        self.n_ids = FIRST + len(self.words)
        self.digest = f"words-{hashlib.sha256(json.dumps(self.words).encode()).hexdigest()[:16]}"
        self._id = {word: FIRST + place for place, word in enumerate(self.words)}

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array([self._id.get(word, UNKNOWN) for word in words_of(text)], dtype=np.int32) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The words with a space between; U+FFFD for an unknown one."""
        return " ".join(self.words[id - FIRST] if id >= FIRST else "\ufffd" for id in ids if id >= UNKNOWN)

    def keep(self, folder: Path) -> None:
        """words.json: the words in the order of their ids, from 3 on."""
        (folder / "words.json").write_text(json.dumps(self.words), encoding="utf-8")


def words_of(text: str) -> list[str]:
    """The words of a text, lower-cased."""
    return _WORD.findall(text.lower())

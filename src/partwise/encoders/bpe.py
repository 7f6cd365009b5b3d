"""Byte-pair encoding, learned from the training split of the text at hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partwise.encoders import ENCODERS
from partwise.encoders.codec import TokenizerCodec
from partwise.errors import ConfigError
from partwise.optional import imported
from partwise.text.digest import text_digest
from partwise.user_cache import cached

PAD, SEPARATOR = "<pad>", "<separator>"  # ids 0 and 1
SMALLEST = 256 + 2  # every byte, and these


@ENCODERS.register("bpe")
@dataclass(frozen=True, kw_only=True)
class Bpe:
    """Byte-level pairs: tokens never cross the border of a word, and any text can be encoded. Needs the extra `hf`.

    Source: Sennrich, Haddow, Birch 2016, arXiv:1508.07909, over bytes as in GPT-2 (Radford et al. 2019).

    Args:
        vocabulary: ids, the 256 bytes, padding and the separator among them; fewer where the text has too few pairs.
    """

    vocabulary: int = 1024

    def __post_init__(self) -> None:
        if self.vocabulary < SMALLEST:
            raise ConfigError(
                f"vocabulary is {self.vocabulary}: at least {SMALLEST} were expected, 256 bytes, padding and separator."
            )

    def build(self, documents: Sequence[str]) -> TokenizerCodec:
        """Learned once for these documents, then read from the cache."""
        tokenizers: Any = imported("tokenizers", extra="hf", what="the encoder bpe")

        def learn(path: Path) -> None:
            tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = tokenizers.decoders.ByteLevel()
            trainer = tokenizers.trainers.BpeTrainer(
                vocab_size=self.vocabulary,
                special_tokens=[PAD, SEPARATOR],
                initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            )
            tokenizer.train_from_iterator(documents, trainer)
            path.write_text(tokenizer.to_str(), encoding="utf-8")

        file = cached(f"tokenizers/{text_digest(documents)}-bpe-{self.vocabulary}.json", learn)
        return TokenizerCodec(file.read_text(encoding="utf-8"), separator=SEPARATOR, pad=PAD)

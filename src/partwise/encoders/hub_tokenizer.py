"""Any tokenizer of the hub, or of a local file, as it comes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partwise.encoders import ENCODERS
from partwise.encoders.codec import FILE, TokenizerCodec
from partwise.errors import ConfigError, did_you_mean
from partwise.hub import asked, is_path
from partwise.optional import imported

SEPARATORS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]")
PADS = ("<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>")


@ENCODERS.register("hub_tokenizer")
@dataclass(frozen=True, kw_only=True)
class HubTokenizer:
    """Nothing is learned. Bits per byte are given where it is byte-level, as GPT-2's and Llama 3's. Needs `hf`.

    Args:
        tokenizer: a name of the hub, a folder with a tokenizer.json, or such a file.
        revision: of the hub's.
        separator: its token between documents; None is the first it has of <|endoftext|>, <|end_of_text|>, </s>,
            <eos> and [SEP].
    """

    tokenizer: str = "openai-community/gpt2"
    revision: str = "main"
    separator: str | None = None

    def build(self, documents: Sequence[str]) -> TokenizerCodec:
        """The documents do not matter."""
        tokenizers: Any = imported("tokenizers", extra="hf", what="the encoder hub_tokenizer")
        if is_path(self.tokenizer):
            path = Path(self.tokenizer).expanduser()
            plain = self._read(path / FILE if path.is_dir() else path)
        else:
            with asked(self.tokenizer, "tokenizer"):
                plain = tokenizers.Tokenizer.from_pretrained(self.tokenizer, revision=self.revision).to_str()
        known = _tokens(plain)
        separator = self.separator or next((token for token in SEPARATORS if token in known), None)
        if separator is None or separator not in known:
            wanted = f"the token {separator}" if separator else f"a separator ({', '.join(SEPARATORS)})"
            raise ConfigError(
                f"the tokenizer {self.tokenizer} does not have {wanted}; name one of its tokens as separator."
                f"{did_you_mean(separator or 'end', known)}"
            )
        return TokenizerCodec(plain, separator=separator, pad=next((t for t in PADS if t in known), separator))

    def _read(self, file: Path) -> str:
        try:
            plain = file.read_text(encoding="utf-8")
            _tokens(plain)
        except FileNotFoundError:
            raise ConfigError(f"there is no file {file}: a tokenizer of the package tokenizers was expected.") from None
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
            raise ConfigError(f"{file} is no tokenizer of the package tokenizers (tokenizer.json).") from None
        return plain


def _tokens(plain: str) -> set[str]:
    """All its tokens, special ones included."""
    held = json.loads(plain)
    vocabulary = held["model"]["vocab"]
    names = vocabulary if isinstance(vocabulary, dict) else (token for token, _ in vocabulary)
    return {*names, *(token["content"] for token in held["added_tokens"])}

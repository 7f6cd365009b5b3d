"""A two-block induction circuit whose weights are set by hand: what probes of circuits must find."""

import torch

from partwise.batch import IGNORE, Batch
from partwise.channel_mixers.none import NoChannelMixer
from partwise.model import ModelConfig, Transformer
from partwise.seeds import generator_for
from partwise.shapes import TaskShape
from partwise.token_mixers.attention import Attention

VOCABULARY, LENGTH = 12, 24
WIDTH = 3 * VOCABULARY + LENGTH  # the token, the token before it, the answer; then the position, one-hot
HEAD_WIDTH = WIDTH // 2
PREVIOUS, ANSWER, PLACE = VOCABULARY, 2 * VOCABULARY, 3 * VOCABULARY
SHARP = 60 * HEAD_WIDTH**0.5  # a score of 60, after the division by sqrt(K)
PREVIOUS_HEAD = "blocks.0.token_mixer.mix.0"
INDUCTION_HEAD = "blocks.1.token_mixer.mix.0"


@torch.no_grad()
def induction_circuit() -> Transformer:
    """Head 0 of block 0 copies the token before; head 0 of block 1 looks for the current token among those, and names
    the token that it finds there. Both heads 1 do nothing."""
    model = blank()
    for parameter in model.parameters():
        parameter.zero_()
    model.embed.weight[:, :VOCABULARY] = torch.eye(VOCABULARY)
    first, second = (block.token_mixer for block in model.blocks)
    place = torch.arange(LENGTH)
    first.query.weight[place[:-1], PLACE + place[1:]] = SHARP
    first.key.weight[place, PLACE + place] = 1.0
    token = torch.arange(VOCABULARY)
    for mixer, into in ((first, PREVIOUS), (second, ANSWER)):
        mixer.value.weight[token, token] = 1.0
        mixer.out.weight[into + token, token] = 1.0
    second.query.weight[token, token] = SHARP
    second.key.weight[token, PREVIOUS + token] = 1.0
    # Position 0 has none before it and copies itself: no one may read it.
    second.query.bias[HEAD_WIDTH - 1] = SHARP
    second.key.weight[HEAD_WIDTH - 1, PLACE] = -1.0
    model.unembed.weight[token, ANSWER + token] = 20.0
    return model


def blank(*, seed: int = 0) -> Transformer:
    """The same architecture, untrained."""
    config = ModelConfig(
        width=WIDTH,
        token_mixer=Attention(n_heads=2, rope=False),
        channel_mixer=NoChannelMixer(),
        norm="none",
        final_norm="none",
        positions="one_hot",
    )
    return Transformer(config, TaskShape(length=LENGTH, vocabulary=VOCABULARY), seed=seed)


def repeated_text(n: int = 64) -> Batch:
    """All ids in some order, and the same again; the next token is asked for in the second copy, and marked."""
    block = torch.rand(n, VOCABULARY, generator=generator_for(0, "text")).argsort(-1)
    tokens_BL = block.repeat(1, 2)
    targets_BL = torch.full_like(tokens_BL, IGNORE)
    asked = torch.arange(VOCABULARY, LENGTH - 1)
    targets_BL[:, asked] = tokens_BL[:, asked + 1]
    source_BN = (asked - VOCABULARY + 1).repeat(n, 1)
    marks = {"answer": asked.repeat(n, 1), "source": source_BN, "key": source_BN - 1}
    return Batch(tokens_BL=tokens_BL, targets_BL=targets_BL, marks=marks)

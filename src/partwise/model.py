"""The Transformer: slots, and whatever the config puts into them.

    x_BLD ─> norm_1 ─> token_mixer ─> join_1 ─> norm_2 ─> channel_mixer ─> join_2 ─> ... ─> final_norm ─> unembed

The block knows that something mixes positions and something mixes channels, never what.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from partwise import fast
from partwise.batch import Batch
from partwise.caches import Cache, mixed_next
from partwise.channel_mixers import CHANNEL_MIXERS, ChannelMixer
from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.errors import ConfigError
from partwise.joins import JOINS, Join
from partwise.joins.add import Add
from partwise.layers import NormKind, embedding, linear, norm, scale_outputs, start_with_std, take
from partwise.packing import Packing
from partwise.seeds import generator_for
from partwise.shapes import MixerSize, TaskShape
from partwise.taps import listening
from partwise.token_mixers import TOKEN_MIXERS, TokenMixer
from partwise.token_mixers.attention import Attention

Order = Literal["sequential", "parallel"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """One block, where blocks differ; what is None is as the model's own field says."""

    token_mixer: Annotated[TokenMixer | None, TOKEN_MIXERS] = None
    channel_mixer: Annotated[ChannelMixer | None, CHANNEL_MIXERS] = None
    norm: NormKind | None = None
    join: Annotated[Join | None, JOINS] = None
    order: Order | None = None


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A decoder-style Transformer, slot by slot. The defaults are the clean `standard` arm of mixit.md 1.6.

    Args:
        n_blocks: depth.
        width: D, of the stream where it starts.
        token_mixer: what mixes positions, in every block that does not say otherwise.
        channel_mixer: what mixes channels.
        norm: before each mixer: rms, layer or none.
        join: how a mixer's output meets the stream.
        order: sequential (the channel mixer sees what the token mixer wrote) or parallel (both read the same).
        blocks: where blocks differ: a pattern of block configs, repeated until n_blocks are made.
        positions: none, learned (a table added to the embedding, N(0, embed_std^2)) or one_hot (the last `length`
            channels of the embedding are the position's one-hot code and do not learn).
        final_norm: before the unembedding.
        tied: the unembedding is the embedding's own tensor.
        embed_std: sd of the embeddings; a part of a task's recipe (1 helps needle, .02 helps arithmetic).
        unembed_std: sd of the unembedding, where it is not tied.
        linear_std: sd of the weights inside the blocks; None is the lab's law, 1/sqrt(fan_in). Published models have
            .02 at every width, which is the lab's at a width of 2500 (mixit.md 1.1).
        base_width: every linear map inside the blocks has its output, bias included, multiplied by
            sqrt(base_width / width), so that maps drawn at one sd act alike at every width; a map with a factor of its
            own keeps that one. Published Shaped and MixiT models have 512. None leaves the factor out.
        two_way: positions see what comes after them; refused where the task's input holds its own answers.
    """

    version: ClassVar[int] = 1

    n_blocks: int = 2
    width: int = 64
    token_mixer: Annotated[TokenMixer, TOKEN_MIXERS] = Attention()
    channel_mixer: Annotated[ChannelMixer, CHANNEL_MIXERS] = GatedMlp()
    norm: NormKind = "rms"
    join: Annotated[Join, JOINS] = Add()
    order: Order = "sequential"
    blocks: tuple[BlockConfig, ...] = ()
    positions: Literal["none", "learned", "one_hot"] = "none"
    final_norm: NormKind = "rms"
    tied: bool = False
    embed_std: float = 1.0
    unembed_std: float = 0.02
    linear_std: float | None = None
    base_width: int | None = None
    two_way: bool = False

    def __post_init__(self) -> None:
        for name in ("n_blocks", "width", "base_width"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, (int, float)) or given < 1):
                raise ConfigError(f"{name} is {given!r}: at least 1 was expected.")
        if self.linear_std is not None and not 0 <= self.linear_std < float("inf"):
            raise ConfigError(f"linear_std is {self.linear_std}: a finite sd was expected, or null for 1/sqrt(fan_in).")
        if len(self.blocks) > self.n_blocks:
            raise ConfigError(f"{len(self.blocks)} block configs for n_blocks={self.n_blocks}.")

    def block(self, index: int) -> BlockConfig:
        """Block `index` with nothing left to fill in."""
        own = self.blocks[index % len(self.blocks)] if self.blocks else BlockConfig()
        return BlockConfig(
            token_mixer=own.token_mixer or self.token_mixer,
            channel_mixer=own.channel_mixer or self.channel_mixer,
            norm=own.norm or self.norm,
            join=own.join or self.join,
            order=own.order or self.order,
        )


class Block(nn.Module):
    """One token mixer and one channel mixer, each behind its norm and joined to the stream.

    `width` afterwards is the width that the stream leaves with.
    """

    def __init__(self, config: BlockConfig, size: MixerSize, *, seed: int):
        super().__init__()
        address = f"blocks.{size.layer}"
        self.order, self.width = config.order, size.width
        assert config.token_mixer and config.channel_mixer and config.join and config.norm  # filled in by block()

        def build(slot: str, part: Any, width: int) -> Any:
            here = MixerSize(
                width=width, length=size.length, causal=size.causal, layer=size.layer, n_layers=size.n_layers
            )
            return part.build(here, generator=generator_for(seed, f"{address}.{slot}"))

        self.token_mixer = build("token_mixer", config.token_mixer, size.width)
        if self.token_mixer is not None:
            self.norm_1 = norm(config.norm, size.width)
            self.join_1 = build("join_1", config.join, size.width)
            self.width = config.join.out_width(self.width)
        channel_width = size.width if config.order == "parallel" else self.width
        self.channel_mixer = build("channel_mixer", config.channel_mixer, channel_width)
        if self.channel_mixer is not None:
            self.norm_2 = norm(config.norm, channel_width)
            self.join_2 = build("join_2", config.join, self.width)
            self.width = config.join.out_width(self.width)
        if config.order == "parallel" and self.width != size.width:
            raise ConfigError("a join that widens the stream needs order=sequential.")

    def forward(
        self,
        x_BLD: Tensor,
        lengths_B: Tensor | None,
        read_BQ: Tensor | None = None,
        *,
        packing: Packing | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(B, L, D) -> (B, L, D'), or (B, Q, D') where only some rows will be read and no tap listens.

        With a packing, x and what comes out are packed, (1, N, D); but what is read is (B, Q, D') as ever. With a
        cache, x_BLD is of the L positions that come after those the cache has seen.
        """
        take_rows = take if packing is None else packing.take
        if read_BQ is not None and listening(self):
            return take_rows(self(x_BLD, lengths_B, packing=packing), read_BQ)
        before_BLD = x_BLD
        if self.token_mixer is not None:
            mixed_BLD = self._mixed(self.norm_1(x_BLD), lengths_B, read_BQ, packing, cache)
        if read_BQ is not None:
            x_BLD = before_BLD = take_rows(x_BLD, read_BQ)
        if self.token_mixer is not None:
            x_BLD = self.join_1(x_BLD, mixed_BLD)
        if self.channel_mixer is not None:
            source_BLD = before_BLD if self.order == "parallel" else x_BLD
            x_BLD = self.join_2(x_BLD, self.channel_mixer(self.norm_2(source_BLD)))
        return x_BLD

    def _mixed(
        self,
        x_BLD: Tensor,
        lengths_B: Tensor | None,
        read_BQ: Tensor | None,
        packing: Packing | None,
        cache: Cache | None,
    ) -> Tensor:
        if cache is not None:
            return mixed_next(self.token_mixer, x_BLD, cache)
        if read_BQ is None and packing is not None:
            if fast.offers(self.token_mixer, "forward_packed"):
                return self.token_mixer.forward_packed(x_BLD, packing)
            return packing.through(self.token_mixer, x_BLD)
        if read_BQ is None:
            return self.token_mixer(x_BLD, lengths_B)
        x_BLD = x_BLD if packing is None else packing.unpack(x_BLD)
        if fast.offers(self.token_mixer, "forward_at"):
            return self.token_mixer.forward_at(x_BLD, read_BQ, lengths_B)
        return take(self.token_mixer(x_BLD, lengths_B), read_BQ)


class Transformer(nn.Module):
    """A function of (parameters, buffers, input): nothing is kept between calls, nothing branches on a value.

    Every part draws from `generator_for(seed, its address)`.
    """

    takes_batch = True  # its forward reads a Batch; other modules get the tokens alone (evaluation.predict)

    def __init__(self, config: ModelConfig, shape: TaskShape, *, seed: int):
        super().__init__()
        if config.two_way and not shape.may_look_ahead:
            raise ConfigError(
                "two_way=true, but this task's input holds its own answers; only a causal model is honest."
            )
        self.config, self.shape = config, shape
        width = config.width - (shape.length if config.positions == "one_hot" else 0)
        if width < 1:
            raise ConfigError(f"one_hot positions take {shape.length} of {config.width} channels: none is left.")
        self.embed: nn.Module
        if shape.vocabulary is not None:
            self.embed = embedding(shape.vocabulary, width, generator_for(seed, "embed"), std=config.embed_std)
        else:
            self.embed = linear(shape.n_features or 0, width, generator_for(seed, "embed"))
        if config.positions == "learned":
            self.positions = embedding(
                shape.length, config.width, generator_for(seed, "positions"), std=config.embed_std
            )
        blocks, stream = [], config.width
        for layer in range(config.n_blocks):
            size = MixerSize(
                width=stream,
                length=shape.length,
                causal=not config.two_way,
                layer=layer,
                n_layers=config.n_blocks,
            )
            blocks.append(Block(config.block(layer), size, seed=seed))
            stream = blocks[-1].width
        self.blocks = nn.ModuleList(blocks)
        if config.linear_std is not None:
            start_with_std(self.blocks, config.linear_std)
        if config.base_width is not None:
            scale_outputs(self.blocks, (config.base_width / config.width) ** 0.5)
        self.final_norm = norm(config.final_norm, stream)
        self.unembed = linear(
            stream, shape.output_width, generator_for(seed, "unembed"), bias=False, std=config.unembed_std
        )
        if config.tied:
            if not isinstance(self.embed, nn.Embedding) or self.embed.weight.shape != self.unembed.weight.shape:
                raise ConfigError(
                    "tied=true, but embedding and unembedding differ in shape: "
                    f"{tuple(self.embed.weight.shape)} and {tuple(self.unembed.weight.shape)}."
                )
            self.unembed.weight = self.embed.weight

    def forward(self, batch: Batch | Tensor, read_BQ: Tensor | None = None) -> Tensor:
        """Logits (B, L, V), or (B, Q, V) at the positions `read_BQ`. A bare tensor of tokens counts as full rows.

        Raises:
            ConfigError: the input is longer than the model was made for.
        """
        if isinstance(batch, Tensor):
            batch = Batch(tokens_BL=batch, targets_BL=batch)
        logits = self.unembed(self.stream(batch, read_BQ))
        return batch.packing.unpack(logits) if batch.packing is not None and read_BQ is None else logits

    def stream(self, batch: Batch, read_BQ: Tensor | None = None) -> Tensor:
        """What the unembedding is given: (B, L, D), (B, Q, D) at `read_BQ`, or (1, N, D) of a packed batch."""
        return self.stream_from(0, self.entering(batch), batch, read_BQ)

    def entering(self, batch: Batch) -> Tensor:
        """What the first block is given: (B, L, D), or (1, N, D) of a packed batch."""
        packing, length = batch.packing, batch.tokens_BL.shape[1]
        if length > self.shape.length:
            raise ConfigError(f"an input of length {length}, but this model was made for {self.shape.length} at most.")
        if packing is None:
            return self.embedded(batch.tokens_BL, torch.arange(length, device=batch.tokens_BL.device))
        return self.embedded(packing.pack(batch.tokens_BL), packing.at_N)

    def stream_from(self, layer: int, x_BLD: Tensor, batch: Batch, read_BQ: Tensor | None = None) -> Tensor:
        """What the unembedding is given, where block `layer` is given x: what lies below need not be computed again."""
        for block in self.blocks[layer:-1]:
            x_BLD = block(x_BLD, batch.lengths_B, packing=batch.packing)
        return self.final_norm(self.blocks[-1](x_BLD, batch.lengths_B, read_BQ, packing=batch.packing))

    def embedded(self, tokens_BL: Tensor, at_L: Tensor) -> Tensor:
        """What the first block is given, (B, L, D): tokens that stand at the positions `at_L`."""
        x_BLD = self.embed(tokens_BL)
        if self.config.positions == "learned":
            return x_BLD + self.positions(at_L)
        if self.config.positions == "one_hot":
            place_LL = torch.eye(self.shape.length, device=x_BLD.device, dtype=x_BLD.dtype)[at_L]
            return torch.cat((x_BLD, place_LL.expand(len(x_BLD), -1, -1)), dim=-1)
        return x_BLD

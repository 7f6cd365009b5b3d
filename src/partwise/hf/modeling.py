"""The lab's Transformer as a model of transformers. It sits inside as `model`, so a parameter's name is `model.` and
its address: `model.blocks.0.token_mixer.query.weight`."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast, SequenceClassifierOutputWithPast
from transformers.utils import can_return_tuple

from partwise.batch import IGNORE, Batch
from partwise.checkpoint import fingerprint, weights
from partwise.errors import ConfigError, DamagedFile
from partwise.hf.caching import PartwiseCache
from partwise.hf.configuration import PartwiseConfig
from partwise.hf.masks import moved_left, used, without_padding
from partwise.layers import take
from partwise.model import Transformer
from partwise.parts import ever_learning


class _Partwise(PreTrainedModel):
    """What both models share: parts that draw themselves, and a checkpoint that must be whole."""

    config_class = PartwiseConfig
    base_model_prefix = "model"
    _input_embed_layer = "embed"
    _no_split_modules = ("Block",)

    def __init__(self, config: PartwiseConfig, *, n_outputs: int | None):
        super().__init__(config)
        self.n_outputs = n_outputs
        self.model = self._drawn().to(torch.get_default_dtype())
        lost = sorted({name for name, _ in self.model.named_buffers()} - self.model.state_dict().keys())
        if lost:
            raise ConfigError(
                f"{lost[0]} is a buffer that no checkpoint would hold; register it with persistent=True, "
                "or compute it in forward."
            )
        self._let_learn()
        if config.frozen_sha256 is not None:  # these are not in the file, and `from_pretrained` draws them again
            self._keys_to_ignore_on_load_missing = {f"^model.{re.escape(name)}$" for name in self._frozen()}
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: each part has drawn its own tensors, by a law of its own, and a checkpoint must hold all others."""

    def _drawn(self) -> Transformer:
        """The model as the config's seed draws it, in float32 on the CPU: transformers builds on the meta device."""
        parts, shape = self.config.model, self.config.shape(self.n_outputs)
        if self.n_outputs is not None:
            parts = dataclasses.replace(parts, tied=False)  # classes are no tokens
        with torch.device("cpu"), _default_dtype(torch.float32):
            return Transformer(parts, shape, seed=self.config.seed)

    def _let_learn(self) -> None:
        learns = ever_learning(self.model, self.config.learn_rule)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name in learns)

    def _frozen(self) -> dict[str, Tensor]:
        """What never learns, by the address in the lab's model: frozen parameters and all buffers."""
        learns = ever_learning(self.model, self.config.learn_rule)
        return {name: tensor for name, tensor in weights(self.model).items() if name not in learns}

    def save_pretrained(
        self,
        save_directory: Any,
        is_main_process: bool = True,
        state_dict: dict[str, Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        """As in transformers; with `frozen_as_seed`, without what never learns.

        Raises:
            ConfigError: that is not what the config's seed draws.
        """
        self.config.frozen_sha256 = None
        if self.config.frozen_as_seed:
            drawn = self._drawn_again(self._frozen())
            for name, tensor in self._frozen().items():
                if not torch.equal(tensor.detach().cpu(), drawn[name].to(tensor.dtype)):
                    raise ConfigError(
                        f"{name} is not what seed {self.config.seed} draws, so a seed cannot stand for it; "
                        "save it with frozen_as_seed=False, or set the seed that it was drawn from."
                    )
            if drawn:
                self.config.frozen_sha256 = fingerprint(drawn)
                whole = self.state_dict() if state_dict is None else state_dict
                state_dict = {name: t for name, t in whole.items() if name.removeprefix("model.") not in drawn}
        super().save_pretrained(save_directory, is_main_process=is_main_process, state_dict=state_dict, **kwargs)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: Any, *args: Any, output_loading_info: bool = False, **kwargs: Any
    ) -> Any:
        """As in transformers, but a checkpoint with a tensor too few, too many or of another shape is refused.

        Raises:
            DamagedFile: it is, or what it keeps as a seed comes out differently here.
        """
        model, info = super().from_pretrained(pretrained_model_name_or_path, *args, output_loading_info=True, **kwargs)
        for what in ("missing", "unexpected", "mismatched"):
            wrong = sorted(str(name) for name in info[f"{what}_keys"])
            if wrong:
                more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
                raise DamagedFile(
                    f"{pretrained_model_name_or_path} does not fit this model: {', '.join(wrong[:3])}{more} "
                    f"{'is' if len(wrong) == 1 else 'are'} {what}."
                )
        if model.config.frozen_sha256 is not None:
            model._draw_frozen(pretrained_model_name_or_path)
        model._let_learn()
        return (model, info) if output_loading_info else model

    def _drawn_again(self, frozen: dict[str, Tensor]) -> dict[str, Tensor]:
        drawn = weights(self._drawn())
        return {name: drawn[name] for name in frozen}

    @torch.no_grad()
    def _draw_frozen(self, source: Any) -> None:
        """Put what never learns in its place, drawn anew."""
        frozen = self._frozen()
        drawn = self._drawn_again(frozen)
        found, kept = fingerprint(drawn), self.config.frozen_sha256
        if found != kept:
            raise DamagedFile(
                f"{source} keeps what never learns as seed {self.config.seed}, and here this draws other tensors "
                f"(sha256 {found[:8]}, and {kept[:8]} on saving): save it whole where it was made."
            )
        for name, tensor in frozen.items():
            tensor.copy_(drawn[name])

    def _refuse(self, asked: dict[str, Any]) -> None:
        """Nothing that is asked for is passed over in silence."""
        for name, value in asked.items():
            if value is not None and value is not False:
                raise ConfigError(f"{name} was given, and {type(self).__name__} does not read it.")


class PartwiseForCausalLM(_Partwise, GenerationMixin):
    """Logits of the next token at each position: the lab's own, bit for bit.

        model = PartwiseForCausalLM(PartwiseConfig(architecture="mixit", vocab_size=256))
        model.generate(prompt, max_new_tokens=20, num_beams=4)

    Its part addresses are those of `model.model`, and what the config's rule leaves out does not learn.
    """

    _tied_weights_keys = {"model.unembed.weight": "model.embed.weight"}  # noqa: RUF012  # transformers' own form
    _is_stateful = True  # a cache cannot be put back by some tokens, as assisted decoding needs

    def __init__(self, config: PartwiseConfig):
        super().__init__(config, n_outputs=None)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """As in transformers.

        Raises:
            ConfigError: the model is two-way, or what comes out gets longer than it was made for.
        """
        if self.config.model.two_way:
            raise ConfigError("a two-way model does not generate: what comes next would change what came before.")
        return super().generate(*args, **kwargs)

    def get_output_embeddings(self) -> nn.Module:
        return self.model.unembed

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.model.unembed = new_embeddings

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """A cache of keys and values does not fit every mixer; `forward` makes its own."""
        return False

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: PartwiseCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Logits (B, L, V), and with labels the mean nats of the next token.

        Args:
            input_ids: (B, L); with a cache, those after what it has read.
            attention_mask: (B, L), 0 where a position is not there (masks.py); with a cache, of all columns so far or
                of the new ones.
            cache: what an earlier call gave. No gradient flows through it.
            labels: (B, L), the tokens themselves: position l is scored on the label of l + 1, and not where one of
                the two is masked or the label is -100.
            use_cache: give a cache to go on from.
            logits_to_keep: so many from the end, or at these positions; 0 is all.
            num_items_in_batch: what the loss is divided by, in place of the number of labels scored.
            kwargs: nothing else.

        Raises:
            ConfigError: the input is longer than the model was made for, or something is asked that it does not do.
        """
        self._refuse(kwargs)
        if cache is None and use_cache:
            cache = PartwiseCache(self.model)
        if cache is None:
            used_BL = used(input_ids, attention_mask)
            x_BLD = self._stream(input_ids, used_BL)
        else:
            used_BL = self._new_columns(input_ids, attention_mask, cache)
            x_BLD = cache.read(self.model, input_ids, used_BL)
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits_BLV = self.model.unembed(x_BLD[:, keep])
        loss = None
        if labels is not None:
            loss = self._loss(logits_BLV, labels, used_BL, num_items_in_batch)
        return CausalLMOutputWithPast(loss=loss, logits=logits_BLV, cache=cache)

    def _stream(self, tokens_BL: Tensor, used_BL: Tensor | None) -> Tensor:
        """What the unembedding is given, (B, L, D)."""
        if used_BL is None:
            return self.model.stream(Batch(tokens_BL=tokens_BL, targets_BL=tokens_BL))
        batch, place_BL = moved_left(tokens_BL, used_BL)
        return take(self.model.stream(batch), place_BL)

    @staticmethod
    def _new_columns(tokens_BN: Tensor, attention_mask: Tensor | None, cache: PartwiseCache) -> Tensor:
        """The mask of what is read now, bool (B, N)."""
        if attention_mask is None:
            return torch.ones_like(tokens_BN, dtype=torch.bool)
        n, columns = tokens_BN.shape[1], cache.get_seq_length() + tokens_BN.shape[1]
        if attention_mask.ndim != 2 or attention_mask.shape[1] not in (n, columns):
            raise ConfigError(
                f"an attention mask of shape {tuple(attention_mask.shape)}: {columns} columns were expected, those of "
                f"the cache and {n} new ones."
            )
        return attention_mask[:, -n:] != 0

    def _loss(
        self, logits_BLV: Tensor, labels_BL: Tensor, used_BL: Tensor | None, n_items: Tensor | int | None
    ) -> Tensor:
        if self.config.model.two_way:
            raise ConfigError("a two-way model has seen the next token, so the loss on it means nothing.")
        if used_BL is not None:
            labels_BL = labels_BL.masked_fill(~used_BL, IGNORE)
        next_BL = nn.functional.pad(labels_BL[:, 1:], (0, 1), value=IGNORE)
        if used_BL is not None:
            next_BL = next_BL.masked_fill(~used_BL, IGNORE)
        return self.loss_function(
            logits=logits_BLV,
            labels=labels_BL,
            vocab_size=logits_BLV.shape[-1],
            shift_labels=next_BL,
            num_items_in_batch=n_items,
        )


class PartwiseForSequenceClassification(_Partwise):
    """Logits of the classes, read at the last token that is no padding; `model.unembed` is the read-out.

    Without an attention mask, `pad_token_id` before the first and after the last other token is padding.
    """

    def __init__(self, config: PartwiseConfig):
        super().__init__(config, n_outputs=config.num_labels)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutputWithPast:
        """Logits (B, num_labels), and with labels the loss that `config.problem_type` names, as in transformers.

        Args:
            input_ids: (B, L).
            attention_mask: (B, L), 0 where a position is not there.
            labels: (B,) ids; other shapes as the problem type has them.
            num_items_in_batch: what a cross-entropy is divided by, in place of B.
            kwargs: nothing else.

        Raises:
            ConfigError: the input is longer than the model was made for, or something is asked that it does not do.
        """
        self._refuse(kwargs)
        if attention_mask is None:
            used_BL = without_padding(input_ids, self.config.pad_token_id)
        else:
            used_BL = used(input_ids, attention_mask)
        if used_BL is None:
            batch = Batch(tokens_BL=input_ids, targets_BL=input_ids)
            last_B1 = torch.full((len(input_ids), 1), input_ids.shape[1] - 1, device=input_ids.device)
        else:
            batch, place_BL = moved_left(input_ids, used_BL)
            last_B1 = place_BL[:, -1:]
        logits_BC = self.model(batch, last_B1)[:, 0]
        loss = None
        if labels is not None:
            divided_by = {"num_items_in_batch": num_items_in_batch}
            loss = self.loss_function(labels=labels, pooled_logits=logits_BC, config=self.config, **divided_by)
        return SequenceClassifierOutputWithPast(loss=loss, logits=logits_BC)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

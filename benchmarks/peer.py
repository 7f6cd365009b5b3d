"""The other side: Hugging Face's Llama of the same sizes, in a plain loop or in `transformers.Trainer`.

Written as one writes it who wants the result and not a benchmark: all logits, AdamW as it comes, float32. It starts
from our model's weights, so that both sides train the same thing (tests/test_benchmarks.py).
"""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, Trainer, TrainingArguments

from partwise.batch import IGNORE, Batch
from partwise.evaluation import CHUNK
from partwise.model import Transformer
from partwise.train_config import TrainConfig

transformers.logging.set_verbosity_error()

NAMES = {  # ours, component by component, to Llama's
    "embed": "model.embed_tokens",
    "blocks": "model.layers",
    "norm_1": "input_layernorm",
    "norm_2": "post_attention_layernorm",
    "token_mixer": "self_attn",
    "channel_mixer": "mlp",
    **{name: f"{name[0]}_proj" for name in ("query", "key", "value", "out")},
    **{name: f"{name}_proj" for name in ("gate", "up", "down")},
    "final_norm": "model.norm",
    "unembed": "lm_head",
}


class FixedMixing(nn.Module):
    """MixiT's arithmetic in the place of Llama's self-attention: y = o_proj(mix v_proj(x))."""

    def __init__(self, width: int, mix_HLL: Tensor):
        super().__init__()
        self.v_proj, self.o_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.mix_HLL: Tensor
        self.register_buffer("mix_HLL", torch.zeros_like(mix_HLL))

    def forward(self, hidden_states: Tensor, **_: Any) -> tuple[Tensor, None]:
        length, n_heads = hidden_states.shape[1], self.mix_HLL.shape[0]
        v_BHSK = self.v_proj(hidden_states).unflatten(-1, (n_heads, -1)).transpose(1, 2)
        y_BHLK = self.mix_HLL[:, :length, :length] @ v_BHSK
        return self.o_proj(y_BHLK.transpose(1, 2).flatten(2)), None


class MixitLlama(LlamaForCausalLM):
    """Llama with fixed mixing, and learned positions added to the embedding."""

    def __init__(self, config: LlamaConfig, mixes_HLL: Sequence[Tensor]):
        super().__init__(config)
        self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        for layer, mix_HLL in zip(self.model.layers, mixes_HLL, strict=True):
            layer.self_attn = FixedMixing(config.hidden_size, mix_HLL)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
        # Padding is on the right and the matrix is causal: no mask is needed, and none is made of `attention_mask`.
        x_BLD = self.model.embed_tokens(input_ids) + self.positions.weight[: input_ids.shape[1]]
        return super().forward(inputs_embeds=x_BLD, **kwargs)


def twin(ours: Transformer, *, attention: str = "eager") -> LlamaForCausalLM:
    """The Llama that computes what our model does, with the same weights: arms `standard` and `mixit`."""
    config, width = ours.config, ours.config.width
    made = LlamaConfig(
        vocab_size=ours.shape.output_width,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=config.n_blocks,
        num_attention_heads=config.token_mixer.n_heads,
        max_position_embeddings=ours.shape.length,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=False,
        use_cache=False,
        attn_implementation=attention,
    )
    state = ours.state_dict()
    mixes_HLL = [tensor for name, tensor in state.items() if name.endswith("mix_HLL")]
    model = MixitLlama(made, mixes_HLL) if mixes_HLL else LlamaForCausalLM(made)
    renamed = {".".join(NAMES.get(part, part) for part in name.split(".")): value for name, value in state.items()}
    model.load_state_dict(renamed)  # strict: what one of them has and the other lacks is an error
    return model


def inputs(batch: Batch) -> dict[str, Tensor | None]:
    """What Llama is called with: the tokens, and the mask of the positions in use where there is padding."""
    return {
        "input_ids": batch.tokens_BL,
        "attention_mask": None if batch.lengths_B is None else batch.used_BL.long(),
    }


def cross_entropy(logits_BLV: Tensor, targets_BL: Tensor) -> Tensor:
    """The mean over scored positions; a target stands at its position, so nothing is shifted."""
    return F.cross_entropy(logits_BLV.flatten(0, 1), targets_BL.flatten(), ignore_index=IGNORE)


def stepper(model: LlamaForCausalLM, config: TrainConfig = TrainConfig()) -> Callable[..., float]:
    """A function that takes one step of the plain loop, on `inputs(batch)` and targets, and gives its loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    model.train()

    def step(given: dict[str, Tensor | None], targets_BL: Tensor) -> float:
        loss = cross_entropy(model(**given).logits, targets_BL)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


class Examples(torch.utils.data.Dataset):
    """Batches taken apart into the examples that Trainer wants."""

    def __init__(self, batches: Sequence[Batch]):
        self.tokens = torch.cat([batch.tokens_BL for batch in batches])
        self.used = torch.cat([batch.used_BL for batch in batches]).long()
        self.targets = torch.cat([batch.targets_BL for batch in batches])

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, at: int) -> dict[str, Tensor]:
        return {"input_ids": self.tokens[at], "attention_mask": self.used[at], "labels": self.targets[at]}


def train(
    model: LlamaForCausalLM, config: TrainConfig, *, train: Examples, validation: Examples, test: Examples
) -> float:
    """Train with `transformers.Trainer`, scoring validation at each tenth and test at the end; accuracy on test."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                max_steps=config.steps,
                per_device_train_batch_size=config.batch,
                per_device_eval_batch_size=CHUNK,
                learning_rate=config.lr,
                warmup_steps=config.warmup,
                lr_scheduler_type="cosine",
                weight_decay=config.weight_decay,
                eval_strategy="steps",
                eval_steps=max(1, config.steps // 10),
                logging_steps=max(1, config.steps // 100),
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=train,
            eval_dataset=validation,
            compute_loss_func=lambda out, targets_BL, num_items_in_batch=None: cross_entropy(out.logits, targets_BL),
            preprocess_logits_for_metrics=lambda logits_BLV, _: logits_BLV.argmax(-1),
            compute_metrics=_accuracy,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return trainer.evaluate(test)["eval_accuracy"]


def _accuracy(seen: transformers.EvalPrediction) -> dict[str, float]:
    scored = seen.label_ids != IGNORE
    return {"accuracy": float((seen.predictions == seen.label_ids)[scored].mean())}

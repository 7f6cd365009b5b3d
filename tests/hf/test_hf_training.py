"""transformers.Trainer on our models: a few steps, on both heads, and back from its checkpoint."""

import pytest
import torch

pytest.importorskip("transformers")

from hf_small import causal, classifier, padded, tokens
from transformers import Trainer, TrainingArguments

from partwise import PartwiseForCausalLM, PartwiseForSequenceClassification


def arguments(folder, **changes) -> TrainingArguments:
    usual = {
        "max_steps": 4,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-2,
        "save_steps": 2,
        "logging_steps": 1,
    }
    return TrainingArguments(str(folder), report_to=[], use_cpu=True, disable_tqdm=True, seed=0, **usual | changes)


def sentences(n: int = 16) -> list[dict]:
    rows = [row[: 5 + index % 4] for index, row in enumerate(tokens(n))]
    tokens_BL, mask_BL = padded(rows, "right")
    labels_BL = tokens_BL.masked_fill(mask_BL == 0, -100)
    return [
        {"input_ids": row, "attention_mask": mask, "labels": labels}
        for row, mask, labels in zip(tokens_BL, mask_BL, labels_BL, strict=True)
    ]


@pytest.mark.parametrize("name", ["standard", "frozen_qk", "mixit"])
def test_a_causal_model_learns_and_what_is_frozen_stays(name, tmp_path):
    model = causal(name)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    data = sentences()
    trainer = Trainer(model, arguments(tmp_path, max_steps=20, save_steps=20), train_dataset=data, eval_dataset=data)
    start = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < start - 0.1
    learns = {key for key, parameter in model.named_parameters() if parameter.requires_grad}
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[key]) is (key not in learns), key
    again = PartwiseForCausalLM.from_pretrained(tmp_path / "checkpoint-20")
    assert torch.equal(again(tokens()).logits, model.eval()(tokens()).logits)


def test_a_run_of_the_trainer_goes_on_from_its_checkpoint(tmp_path):
    whole, parts = causal("frozen_qk", tie_word_embeddings=True), causal("frozen_qk", tie_word_embeddings=True)
    Trainer(whole, arguments(tmp_path / "a"), train_dataset=sentences()).train()
    Trainer(parts, arguments(tmp_path / "a"), train_dataset=sentences()).train(
        resume_from_checkpoint=str(tmp_path / "a/checkpoint-2")
    )
    for key, tensor in whole.state_dict().items():
        assert torch.equal(parts.state_dict()[key], tensor), key


def test_a_classifier_learns(tmp_path):
    model = classifier("mixit", pad_token_id=0)
    data = [{"input_ids": row, "labels": row[-1] % 3} for row in tokens(16)]
    trainer = Trainer(model, arguments(tmp_path, max_steps=20, save_steps=20), train_dataset=data, eval_dataset=data)
    start = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < start - 0.1
    again = PartwiseForSequenceClassification.from_pretrained(tmp_path / "checkpoint-20")
    assert torch.equal(again(tokens()).logits, model.eval()(tokens()).logits)

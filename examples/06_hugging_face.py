"""Train in the lab, go on with transformers: the same bits, generation with a cache, training by its Trainer."""

import torch
from transformers import AutoModelForCausalLM

from partwise import AllBut, Experiment, ModelConfig, Needle, TrainConfig, run
from partwise.experiment import run_folder
from partwise.hf import export_run
from partwise.seeds import generator_for

FROZEN_QK = AllBut("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")


def main(steps: int = 800, out: str = "out/hugging_face") -> None:
    experiment = Experiment(
        task=Needle(n_pairs=8),
        model=ModelConfig(n_blocks=2, width=64),
        learn=FROZEN_QK,
        train=TrainConfig(steps=steps, batch=128, lr=1e-2, warmup=80),
    )
    record = run(experiment, out)
    export_run(run_folder(out, experiment), f"{out}/model", frozen_as_seed=True)  # or: partwise export RUN --to DIR

    model = AutoModelForCausalLM.from_pretrained(f"{out}/model")  # importing partwise.hf has registered it
    task, _ = experiment.build()
    batch = task.sample(1000, split="test", generator=generator_for(0, "example"))
    with torch.no_grad():
        hits = model(batch.tokens_BL).logits.argmax(-1) == batch.targets_BL
    there = hits[batch.scored_BL].float().mean()
    print(f"accuracy {record.value('accuracy'):.3f} in the lab, {there:.3f} in transformers, on other test examples")
    print(model.generate(batch.tokens_BL[:2, :8], max_new_tokens=4, num_beams=2, do_sample=False))


if __name__ == "__main__":
    main()

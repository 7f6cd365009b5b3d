"""Look and write through taps: which earlier position does the answer read, and what if it may not?"""

import torch

from partwise import Experiment, Needle, TrainConfig, record, rewrite, train
from partwise.evaluation import evaluation_batch, predict, score


def main(steps: int = 800) -> None:
    experiment = Experiment(task=Needle(n_pairs=4), train=TrainConfig(steps=steps, lr=1e-2, warmup=min(80, steps)))
    data, model = experiment.build()

    train(model, data, config=experiment.train)
    batch = evaluation_batch(data, "test", n=500, seed=0)
    with torch.no_grad(), record(model, "blocks.1.token_mixer.mix") as seen:
        predict(model, batch)
    mix_BHLS = seen["blocks.1.token_mixer.mix"]
    rows = torch.arange(len(batch))
    at_source = mix_BHLS[rows, :, batch.marks["answer"], batch.marks["source"]].mean(0)
    print("attention of each head of block 1, from the question to the right value:", at_source)
    intact = score(model, batch).hits.float().mean().item()
    for head in range(mix_BHLS.shape[1]):

        def without(mix: torch.Tensor, head: int = head) -> torch.Tensor:
            return mix.index_fill(1, torch.tensor([head]), 0.0)

        with rewrite(model, "blocks.1.token_mixer.mix", without):
            knocked = score(model, batch).hits.float().mean().item()
        print(f"accuracy without head {head} of block 1: {knocked:.3f} (with it {intact:.3f})")


if __name__ == "__main__":
    main()

"""Train one model on one task, and read its score beside the floor."""

from partwise import Attention, Experiment, GatedMlp, ModelConfig, Needle, TrainConfig, run, table


def main(steps: int = 800) -> None:
    experiment = Experiment(
        task=Needle(n_pairs=8),
        model=ModelConfig(n_blocks=2, width=64, token_mixer=Attention(n_heads=4), channel_mixer=GatedMlp()),
        train=TrainConfig(steps=steps, batch=128, lr=1e-2, warmup=80),
        architecture="standard",
        seed=0,
    )
    record = run(experiment)  # run(experiment, "out/first") keeps it, and goes on there when it was stopped
    print(f"accuracy {record.value('accuracy'):.3f}")
    print(f"naming the most frequent value: {record.value('accuracy.floor.most_frequent_value'):.3f}")
    print(table([record]))


if __name__ == "__main__":
    main()

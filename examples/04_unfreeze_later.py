"""A schedule: queries and keys stay as drawn for the first half, then everything learns."""

from partwise import AllBut, Experiment, Needle, Stages, TrainConfig, run


def main(steps: int = 600) -> None:
    frozen_qk = AllBut("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")
    experiment = Experiment(
        task=Needle(n_pairs=4),
        learn=Stages((0, frozen_qk), (steps // 2, AllBut())),
        train=TrainConfig(steps=steps, lr=1e-2, warmup=min(80, steps)),
    )
    print(experiment.check())
    for entry in run(experiment).history:
        if "validation" in entry:
            print(f"step {entry['step']:>4}  loss {entry['loss']:.3f}  accuracy {entry['validation']['accuracy']:.3f}")


if __name__ == "__main__":
    main()

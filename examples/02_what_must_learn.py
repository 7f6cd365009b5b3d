"""The same task with parts frozen or swapped: fifteen runs as processes side by side, and the table."""

from partwise import (
    AllBut,
    Attention,
    Experiment,
    ModelConfig,
    Needle,
    Only,
    RandomMixing,
    TrainConfig,
    run_all,
    table,
    vary,
)


def main(steps: int = 800, seeds: int = 3, out: str = "out/what_must_learn") -> None:
    base = Experiment(
        task=Needle(n_pairs=8),
        model=ModelConfig(n_blocks=2, width=64, token_mixer=Attention(n_heads=4)),
        train=TrainConfig(steps=steps, batch=128, lr=1e-2, warmup=80),
        architecture="standard",
    )
    no_qk = AllBut("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")
    no_mlp = AllBut("blocks.*.channel_mixer")
    runs = vary(base, seed=range(seeds))
    runs += vary(base, learn=[no_qk], architecture=["frozen_qk"], seed=range(seeds))
    runs += vary(base, learn=[no_mlp], architecture=["frozen_mlp"], seed=range(seeds))
    runs += vary(base, learn=[Only("embed", "unembed")], architecture=["embeddings_only"], seed=range(seeds))
    mixit = vary(base, model__token_mixer=[RandomMixing(n_heads=4)], model__positions=["learned"], train__lr=[3e-3])
    runs += vary(mixit[0], architecture=["mixit"], seed=range(seeds))
    print(table(run_all(runs, out)))


if __name__ == "__main__":  # runs are processes of their own, which import this file
    main()

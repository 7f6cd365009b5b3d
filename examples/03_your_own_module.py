"""Any nn.Module: its addresses are its parameter names. Here, a recurrent network with its recurrence frozen."""

from torch import Tensor, nn

from partwise import AllBut, Needle, TrainConfig, table, train


class Recurrent(nn.Module):
    def __init__(self, vocabulary: int, width: int = 64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(tokens_BL))[0])


def main(steps: int = 400) -> None:
    task = Needle(n_pairs=4)
    vocabulary = task.build(seed=0).shape.vocabulary
    config = TrainConfig(steps=steps, lr=5e-3)
    whole = train(Recurrent(vocabulary), task, config=config)
    frozen = train(Recurrent(vocabulary), task, learn=AllBut("rnn.weight_hh_*"), config=config)
    whole.architecture, frozen.architecture = "gru", "gru, recurrence frozen"
    print(table([whole, frozen]))


if __name__ == "__main__":
    main()

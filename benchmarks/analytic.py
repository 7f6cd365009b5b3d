"""What a training step costs by formula: the matrix products of the plain way, and nothing else."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from partwise import fast
from partwise.batch import Batch
from partwise.model import Transformer
from partwise.parts import LearnRule
from partwise.updates import backward


def step_flops(
    *, arm: str, n_blocks: int, width: int, batch: int, length: int, vocabulary: int, n_read: int | None = None
) -> float:
    """Floating-point operations of one training step of an arm: standard, frozen_qk, frozen_mlp or mixit.

    With D the width, L the length, V the vocabulary, and R rows computed in a block (R = L, but in the last block
    the Q positions that are read), one example's forward pass multiplies and adds

        value, key                         L D^2 each
        query, out                         R D^2 each
        scores, mix times values           R L D each
        gate, up, down of the MLP          R D (4 D) each
        unembedding                        Q D V        (Q = L if all positions are read)

    times, and each is two operations. The backward pass costs each product once more for the gradient of its input
    and once more for that of its other factor, the weight or, in scores and mix, the other activation. What is frozen
    costs no gradient of the weight: query and key in frozen_qk, the MLP in frozen_mlp, the mixing matrix of mixit,
    which has neither query, key nor scores. Gradients of inputs run through all that is frozen, since the embedding
    below it learns. Causal products count whole, though half of them is zero; norms, softmax, the optimizer and all
    that is element by element do not count.
    """
    read = length if n_read is None else n_read
    total = 3 * read * width * vocabulary
    for block in range(n_blocks):
        rows = read if block == n_blocks - 1 else length
        total += 3 * (length + rows) * width**2  # value, out
        total += (2 if arm == "frozen_mlp" else 3) * 12 * rows * width**2  # gate, up, down
        if arm == "mixit":
            total += 2 * rows * length * width
        else:
            total += (2 if arm == "frozen_qk" else 3) * (length + rows) * width**2  # key, query
            total += 3 * 2 * rows * length * width  # scores, mix
    return 2.0 * batch * total


def counted_flops(model: Transformer, learn: LearnRule, batch: Batch) -> int:
    """The same, counted by torch on the plain ways, in which every product is seen."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learn.learning(model, 0))
    with fast.plain(), FlopCounterMode(display=False) as counter:
        backward(model, batch, pieces=1, device=torch.device("cpu"), precision="float32", groups=0)
    return counter.get_total_flops()

"""What an update costs, counted and not guessed: torch's own counter on a forward and backward pass."""

from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from partwise import fast
from partwise.evaluation import mode
from partwise.parts import LearnRule
from partwise.seeds import generator_for
from partwise.updates import backward


def flops_per_example(model: nn.Module, data: Any, learn: LearnRule) -> list[tuple[int, float]]:
    """Floating-point operations of one example's part in an update, counted by torch on a forward and backward pass.

    Returns:
        (first step, FLOPs) for each stage of the learn rule: what is frozen costs no weight gradient. Multiplications
        and additions of matrix products count, as the plain ways do them and padding included; what is element by
        element does not.
    """
    device = next(model.parameters()).device
    n = 2
    batch = data.sample(n, split="train", generator=generator_for(0, "flops"))
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    counted = []
    try:
        # Plain matrix products, since the fused CPU kernel is not counted; a user's dropout does not notice.
        with mode(model, training=False), sdpa_kernel(SDPBackend.MATH), fast.plain(), torch.random.fork_rng(devices=[]):
            for step in (0, *learn.changes()):
                learns = learn.learning(model, step)
                for name, parameter in model.named_parameters():
                    parameter.requires_grad_(name in learns)
                with FlopCounterMode(display=False) as counter:
                    backward(model, batch, pieces=1, device=device, precision="float32", groups=0)
                counted.append((step, counter.get_total_flops() / n))
    finally:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(wanted[name])
            parameter.grad = None
    return counted


def spent(flops: list[tuple[int, float]], steps: int, batch: int) -> float:
    """FLOPs of so many steps, stage by stage."""
    ends = [start for start, _ in flops[1:]] + [steps]
    stages = zip(flops, ends, strict=True)
    return sum(max(0, min(end, steps) - start) * each for (start, each), end in stages) * batch

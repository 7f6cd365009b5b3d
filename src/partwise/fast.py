"""Fast ways beside the plain ones: the same numbers up to rounding, with fewer passes over memory.

They are written for the CPU, where each pass counts; a GPU has fused kernels of its own. `with plain():` switches them
off, and fused attention too: for a test that holds the two together, and for whoever needs second derivatives.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

_plain = contextvars.ContextVar("plain", default=False)


def asked_plain() -> bool:
    """Whether `plain()` is in force, a transformation of `torch.func`, or forward differentiation: these know no other
    ways."""
    return _plain.get() or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Take the plain ways only."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def applies(x: Tensor) -> bool:
    """Whether the fast ways are taken for such a tensor: `torch.compile` finds its own."""
    return x.device.type == "cpu" and not asked_plain() and not torch.compiler.is_compiling()


def hooked(module: nn.Module) -> bool:
    """Whether a call of the module does more than its `forward`: a hook, or a compiled call."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_compiled_call_impl")
    return any(getattr(module, name, None) for name in hooks)


def bare(*layers: nn.Module) -> bool:
    """Whether these are plain linear maps on which nobody has put a hook, so that weight and bias say all."""
    return all(type(layer) is nn.Linear and not hooked(layer) for layer in layers)


def offers(module: nn.Module, name: str) -> bool:
    """Whether the method can stand in for a call of the module: nobody has hooked that, and no subclass has changed
    `forward` and left the method as it was."""
    for kind in type(module).__mro__:
        if name in vars(kind):
            return not hooked(module)
        if "forward" in vars(kind):
            return False
    return False


def rms_norm(x: Tensor, gain_D: Tensor, eps: float) -> Tensor:
    """g x / sqrt(mean x^2 + eps) over the last axis; under autocast the result is in the type of the arithmetic, so
    that it is rounded once and not by each map that reads it."""
    if not applies(x) or x.dtype not in (torch.float32, torch.float64):  # others overflow in a sum of squares
        return F.rms_norm(x, (x.shape[-1],), gain_D, eps)
    return _RmsNorm.apply(x, gain_D, eps, _arithmetic(x))


def _arithmetic(x: Tensor) -> torch.dtype:
    """What a matrix product of x is computed in."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain_D: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inverse = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, inverse, gain_D)
        return (x * inverse).mul_(gain_D).to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y: Tensor):
        """Layer norm's backward kernel with a mean of zero, plus the term that it takes off for the mean."""
        x, inverse, gain_D = ctx.saved_tensors
        d_y, width = d_y.to(x.dtype), x.shape[-1]
        d_x, d_gain, _ = torch.ops.aten.native_layer_norm_backward(
            d_y, x, [width], torch.zeros_like(inverse), inverse, gain_D, None, [True, True, False]
        )
        d_x.add_((d_y @ gain_D).unsqueeze(-1).div_(width).mul_(inverse))
        return d_x, d_gain, None, None


def rotated(x_BLHK: Tensor, cos_BLHK: Tensor, sin_BLHK: Tensor) -> Tensor:
    """x cos + swapped(x) sin, where `swapped` changes the two halves of K with each other: channel pairs (i, i + K/2)
    turned by an angle, if the first half of `sin` is the negative of the second. Whole tables, since a loop over half a
    head at a time costs more than what it saves."""
    if applies(x_BLHK):
        return _Rotated.apply(x_BLHK, cos_BLHK, sin_BLHK)
    return x_BLHK * cos_BLHK + x_BLHK.roll(x_BLHK.shape[-1] // 2, dims=-1) * sin_BLHK


class _Rotated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y: Tensor):
        """The turn back."""
        cos, sin = ctx.saved_tensors
        return _turn(d_y, cos, sin, -1), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor, sign: int) -> Tensor:
    swapped, half = torch.empty(x.shape, dtype=x.dtype), x.shape[-1] // 2
    swapped[..., :half], swapped[..., half:] = x[..., half:], x[..., :half]
    return (x * cos).addcmul_(swapped, sin, value=sign)


def gated(x: Tensor, gate: nn.Linear, up: nn.Linear, down: nn.Linear) -> Tensor:
    """down(silu(gate(x)) * up(x)): the gated feed-forward of Llama, in one node of the graph.

    Its backward adds both gradients of x up within the matrix products and makes no tensor that it does not need.
    """
    dtype = _arithmetic(x)
    maps = [parameter.to(dtype) for layer in (gate, up, down) for parameter in (layer.weight, layer.bias)]
    return _Gated.apply(x.flatten(0, -2).to(dtype), *maps).unflatten(0, x.shape[:-1])


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_ND: Tensor, *maps: Tensor) -> Tensor:
        gate_FD, gate_F, up_FD, up_F, down_DF, down_D = maps
        with torch.autocast("cpu", enabled=False):
            before_NF, up_NF = torch.addmm(gate_F, x_ND, gate_FD.T), torch.addmm(up_F, x_ND, up_FD.T)
            open_NF = F.silu(before_NF)
            hidden_NF = open_NF * up_NF
            ctx.save_for_backward(x_ND, before_NF, open_NF, up_NF, hidden_NF, gate_FD, up_FD, down_DF)
            return torch.addmm(down_D, hidden_NF, down_DF.T)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y: Tensor):
        x_ND, before_NF, open_NF, up_NF, hidden_NF, gate_FD, up_FD, down_DF = ctx.saved_tensors
        needs = ctx.needs_input_grad
        d_hidden_NF = d_y @ down_DF
        d_up_NF = d_hidden_NF * open_NF
        d_before_NF = torch.ops.aten.silu_backward(d_hidden_NF.mul_(up_NF), before_NF)
        d_x = (d_before_NF @ gate_FD).addmm_(d_up_NF, up_FD) if needs[0] else None
        found: list[Tensor | None] = [d_x]
        for at, d_NO, input_NI in ((1, d_before_NF, x_ND), (3, d_up_NF, x_ND), (5, d_y, hidden_NF)):
            found.append(d_NO.T @ input_NI if needs[at] else None)
            found.append(d_NO.sum(0) if needs[at + 1] else None)
        return tuple(found)


def rows_of(x_NX: Tensor, at_M: Tensor) -> Tensor:
    """x[at] where no row is named twice: the gradient is put in place and not added up."""
    return _Rows.apply(x_NX, at_M) if applies(x_NX) else x_NX[at_M]


def rows_into(x_MX: Tensor, at_M: Tensor, n: int) -> Tensor:
    """The inverse: n rows, of which those at `at` are x and the others zero."""
    return _Into.apply(x_MX, at_M, n) if applies(x_MX) else _put(x_MX, at_M, n)


def _put(x_MX: Tensor, at_M: Tensor, n: int) -> Tensor:
    return x_MX.new_zeros(n, *x_MX.shape[1:]).index_copy_(0, at_M, x_MX)


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, at: Tensor) -> Tensor:
        ctx.save_for_backward(at)
        ctx.n = len(x)
        return x.index_select(0, at)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y: Tensor):
        (at,) = ctx.saved_tensors
        return _put(d_y, at, ctx.n), None


class _Into(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, at: Tensor, n: int) -> Tensor:
        ctx.save_for_backward(at)
        return _put(x, at, n)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y: Tensor):
        return d_y.index_select(0, *ctx.saved_tensors), None, None


CORNER = 64  # rows of a triangular matrix that are multiplied at once, by no more of it than they have


def mixed_alike(mix_HLL: Tensor, v_BLHK: Tensor, *, causal: bool) -> Tensor:
    """Values of all examples mixed by the same matrices, head by head, (B, L, H, K), in one product a head. (A matrix
    repeated for each example is copied for each: at L = 1024 that takes three times as long.)

    Args:
        mix_HLL: what multiplies the values; on the fast way it gets no gradient, so one that wants it goes the plain.
        v_BLHK: the values.
        causal: `mix` is zero right of the diagonal, and is not multiplied there.
    """
    if not applies(v_BLHK) or mix_HLL.requires_grad:
        return torch.einsum("hls,bshk->blhk", mix_HLL, v_BLHK)
    return _MixedAlike.apply(mix_HLL, v_BLHK, CORNER if causal else mix_HLL.shape[1])


class _MixedAlike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mix_HLL: Tensor, v_BLHK: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(mix_HLL)
        ctx.rows = rows
        v_HLX = _heads_first(v_BLHK)
        y_HLX = torch.empty_like(v_HLX)
        with torch.autocast("cpu", enabled=False):
            for first in range(0, mix_HLL.shape[1], rows):
                end = first + rows
                torch.bmm(mix_HLL[:, first:end, :end], v_HLX[:, :end], out=y_HLX[:, first:end])
        return _examples_first(y_HLX, len(v_BLHK))

    @staticmethod
    @once_differentiable
    def backward(ctx, d_y_BLHK: Tensor):
        (mix_HLL,) = ctx.saved_tensors
        d_y_HLX = _heads_first(d_y_BLHK)
        d_v_HLX = torch.empty_like(d_y_HLX)
        with torch.autocast("cpu", enabled=False):
            for first in range(0, mix_HLL.shape[1], ctx.rows):
                end = first + ctx.rows
                torch.bmm(mix_HLL[:, first:, first:end].mT, d_y_HLX[:, first:], out=d_v_HLX[:, first:end])
        return None, _examples_first(d_v_HLX, len(d_y_BLHK)), None


def _heads_first(x_BLHK: Tensor) -> Tensor:
    """(H, L, B K)."""
    return x_BLHK.permute(2, 1, 0, 3).flatten(2)


def _examples_first(x_HLX: Tensor, n_examples: int) -> Tensor:
    """(B, L, H, K)."""
    return x_HLX.unflatten(2, (n_examples, -1)).permute(2, 1, 0, 3)


LOGITS = 2**20  # from so many on they do not stay in the caches nearest to a core
ROWS = 256  # positions whose logits are held at once


def cross_entropy_sum(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
    """Sum of -log softmax(W x)[target], in nats, without all logits in memory at once.

    The gradient is computed together with the value, piece by piece of the positions: each piece of the logits is made,
    used for both and dropped. Every target must be an id.
    """
    return _CrossEntropySum.apply(x_ND.to(_arithmetic(x_ND)), weight_VD, targets_N)


class _CrossEntropySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor) -> Tensor:
        needs_x, needs_weight, _ = ctx.needs_input_grad
        rounded_VD = weight_VD.to(x_ND.dtype)
        d_x = torch.empty_like(x_ND) if needs_x else None
        d_weight = torch.zeros_like(weight_VD) if needs_weight else None
        total = torch.zeros((), dtype=torch.promote_types(x_ND.dtype, torch.float32))
        with torch.autocast("cpu", enabled=False):
            for start in range(0, len(x_ND), ROWS):
                piece_MD, at_M1 = x_ND[start : start + ROWS], targets_N[start : start + ROWS, None]
                log_p_MV = (piece_MD @ rounded_VD.T).to(total.dtype).log_softmax(-1)
                total -= log_p_MV.gather(1, at_M1).sum()
                d_logits_MV = log_p_MV.exp_().scatter_add_(1, at_M1, -torch.ones_like(at_M1, dtype=total.dtype))
                d_logits_MV = d_logits_MV.to(x_ND.dtype)
                if d_x is not None:
                    torch.mm(d_logits_MV, rounded_VD, out=d_x[start : start + ROWS])
                if d_weight is not None and d_weight.dtype == x_ND.dtype:
                    d_weight.addmm_(d_logits_MV.T, piece_MD)
                elif d_weight is not None:
                    d_weight += d_logits_MV.T @ piece_MD
        ctx.save_for_backward(d_x, d_weight)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, d_total: Tensor):
        d_x, d_weight = ctx.saved_tensors
        scaled = [None if d is None else d * d_total.to(d.dtype) for d in (d_x, d_weight)]
        return *scaled, None

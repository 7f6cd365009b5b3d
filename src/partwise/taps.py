"""Places to look and to write. A model holds `Tap`s; probes listen with `record`, ablations write with `rewrite`.

A tap costs nothing while nobody listens: the fused kernel runs. With a listener, or within `plainly`, the plain path
runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from partwise.addresses import matches
from partwise.errors import UnknownAddress

Listener = Callable[[Tensor], Tensor]


class Tap(nn.Module):
    """Passes a tensor on, through whoever listens. Every `mix` tap carries four axes, (B or 1, H, L, S)."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Listener] = []
        self.plain = False

    @property
    def listening(self) -> bool:
        """Whether the value must pass here: someone looks or writes, or the plain path was asked for."""
        return self.plain or bool(self.listeners)

    def forward(self, value: Tensor) -> Tensor:
        for listener in self.listeners:
            value = listener(value)
        return value


def listening(module: nn.Module) -> bool:
    """Whether any tap inside the module has a listener."""
    return any(part.listeners for part in module.modules() if isinstance(part, Tap))


@contextmanager
def plainly(model: nn.Module) -> Iterator[None]:
    """Take the plain path in every mixer, and still no more rows than are read: fused kernels do not stack."""
    inside = [part for part in model.modules() if isinstance(part, Tap)]
    before = [tap.plain for tap in inside]
    for tap in inside:
        tap.plain = True
    try:
        yield
    finally:
        for tap, was in zip(inside, before, strict=True):
            tap.plain = was


def taps(model: nn.Module, pattern: str = "*") -> dict[str, Tap]:
    """The taps whose address, or whose own name, matches the pattern.

    Raises:
        UnknownAddress: none does; the text lists those that exist.
    """
    every = {address: part for address, part in model.named_modules() if isinstance(part, Tap)}
    found = {address: tap for address, tap in every.items() if _named(pattern, address)}
    if not found:
        has = f"This model has: {', '.join(every)}." if every else "This model has none."
        raise UnknownAddress(f"no tap matches {pattern!r}. {has}")
    return found


def has_tap(model: nn.Module, pattern: str) -> bool:
    """Whether any tap matches the pattern: for a probe that does not apply everywhere."""
    return any(isinstance(part, Tap) and _named(pattern, address) for address, part in model.named_modules())


def _named(pattern: str, address: str) -> bool:
    return matches(pattern, address) or matches(pattern, address.rsplit(".", 1)[-1])


@contextmanager
def record(model: nn.Module, pattern: str) -> Iterator[dict[str, Tensor]]:
    """Collect what passes the matching taps: {address: the last value seen}."""
    seen: dict[str, Tensor] = {}

    def note(address: str) -> Listener:
        def listener(value: Tensor) -> Tensor:
            seen[address] = value
            return value

        return listener

    with _listeners({tap: note(address) for address, tap in taps(model, pattern).items()}):
        yield seen


@contextmanager
def rewrite(model: nn.Module, pattern: str, edit: Listener) -> Iterator[None]:
    """Put `edit(value)` in place of what passes the matching taps; put back on leaving, also after an exception."""
    with _listeners(dict.fromkeys(taps(model, pattern).values(), edit)):
        yield


@contextmanager
def _listeners(added: dict[Tap, Listener]) -> Iterator[None]:
    for tap, listener in added.items():
        tap.listeners.append(listener)
    try:
        yield
    finally:
        for tap, listener in added.items():
            tap.listeners.remove(listener)

"""What learns: short rules over part addresses, for any nn.Module.

    AllBut()                                            everything learns
    AllBut("blocks.*.token_mixer.query", "...key")      Frozen-QK
    Only("embed", "positions?", "unembed")              only the embeddings; "?" marks a part that a model may lack
    Stages((0, AllBut("blocks.*.channel_mixer")), (500, AllBut()))      from step 500 on, everything learns

A pattern names parameters or the modules that hold them (addresses.py). Each pattern must match, so that "all but query
and key" never silently means "all"; a tied tensor has two addresses, and naming either selects it.

What a change of stage does (held to by tests/test_parts.py and tests/test_training.py): the optimizer holds only what
learns now; a part that begins to learn starts with fresh moments, bias-corrected from that step; a part that stops
loses its moments, is not decayed and stays bit for bit as it is; the gradient is clipped over what learns now.
"""

import difflib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, runtime_checkable

from torch import nn

from partwise.addresses import matches
from partwise.errors import ConfigError, UnknownAddress
from partwise.registry import Registry

LEARN_RULES = Registry("learn rule", package=None)


@runtime_checkable
class LearnRule(Protocol):
    """Says which parameters learn at a step."""

    def learning(self, model: nn.Module, step: int = 0) -> set[str]: ...

    def changes(self) -> tuple[int, ...]: ...


def aliases(model: nn.Module) -> dict[str, str]:
    """Each parameter's every address, and the one name that state dicts and records use for it."""
    first: dict[int, str] = {}
    return {
        address: first.setdefault(id(parameter), address)
        for address, parameter in model.named_parameters(remove_duplicate=False)
    }


def select(model: nn.Module, patterns: tuple[str, ...]) -> set[str]:
    """The parameters that the patterns name.

    Raises:
        UnknownAddress: a pattern matches none (and does not end in "?"); the text has the nearest address.
    """
    known, chosen = aliases(model), set()
    for pattern in patterns:
        found = {name for address, name in known.items() if matches(pattern.removesuffix("?"), address, below=True)}
        if not found and not pattern.endswith("?"):
            raise UnknownAddress(f"{pattern!r} names no parameter of this model.{_nearest(pattern, known)}")
        chosen |= found
    return chosen


def _nearest(pattern: str, known: dict[str, str]) -> str:
    """' Nearest: ...' among parameters and the modules that hold them, with the pattern's depth first."""
    places = {".".join(parts[:depth]) for a in known if (parts := a.split(".")) for depth in range(1, len(parts) + 1)}
    concrete = pattern.removesuffix("?").replace("*", "0")
    near = difflib.get_close_matches(concrete, sorted(places), n=1, cutoff=0.5)
    return f" Nearest: {near[0]}." if near else f" There are: {', '.join(sorted({a.split('.')[0] for a in known}))}."


class _Patterns:
    """Equality, hash and repr for the two rules that are a tuple of patterns."""

    patterns: tuple[str, ...]

    def __init__(self, *patterns: str):
        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern.strip("?"):
                raise ConfigError(f"a learn rule is made of address patterns; {pattern!r} is none.")
        object.__setattr__(self, "patterns", patterns)

    def changes(self) -> tuple[int, ...]:
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.patterns))})"


@LEARN_RULES.register("only")
@dataclass(frozen=True, init=False, repr=False)
class Only(_Patterns):
    """The parts named learn; nothing else does."""

    patterns: tuple[str, ...] = ()

    def learning(self, model: nn.Module, step: int = 0) -> set[str]:
        learns = select(model, self.patterns)
        if not learns:
            raise ConfigError(f"{self!r} lets nothing learn; name at least one part that this model has.")
        return learns


@LEARN_RULES.register("all_but")
@dataclass(frozen=True, init=False, repr=False)
class AllBut(_Patterns):
    """Everything learns except the parts named."""

    patterns: tuple[str, ...] = ()

    def learning(self, model: nn.Module, step: int = 0) -> set[str]:
        learns = set(aliases(model).values()) - select(model, self.patterns)
        if not learns:
            raise ConfigError(f"{self!r} leaves nothing to learn.")
        return learns


@dataclass(frozen=True)
class Stage:
    """From step `start` on, `rule` says what learns."""

    start: int
    rule: Annotated[Any, LEARN_RULES]


@LEARN_RULES.register("stages")
@dataclass(frozen=True, init=False, repr=False)
class Stages:
    """One rule after another, such as gradual unfreezing: Stages((0, rule), (500, rule), ...)."""

    stages: tuple[Stage, ...] = ()

    def __init__(self, *stages: Stage | tuple[int, LearnRule]):
        made = tuple(stage if isinstance(stage, Stage) else Stage(*stage) for stage in stages)
        for stage in made:
            if not isinstance(stage.start, int) or not isinstance(stage.rule, (Only, AllBut)):
                raise ConfigError(f"a stage is a step and Only or AllBut, not ({stage.start!r}, {stage.rule!r}).")
        starts = [stage.start for stage in made]
        if not made or starts[0] != 0 or any(b <= a for a, b in itertools.pairwise(starts)):
            raise ConfigError(f"stages start at steps {starts}: the first at 0 and each later than the one before.")
        object.__setattr__(self, "stages", made)

    def learning(self, model: nn.Module, step: int = 0) -> set[str]:
        return next(stage.rule.learning(model) for stage in reversed(self.stages) if stage.start <= step)

    def changes(self) -> tuple[int, ...]:
        return tuple(stage.start for stage in self.stages[1:])

    def __repr__(self) -> str:
        return f"Stages({', '.join(f'({stage.start}, {stage.rule!r})' for stage in self.stages)})"


def ever_learning(model: nn.Module, rule: LearnRule) -> set[str]:
    """The parameters that learn at any stage."""
    return set().union(*(rule.learning(model, step) for step in (0, *rule.changes())))


@dataclass(frozen=True, kw_only=True)
class Census:
    """How many numbers a model holds, and what becomes of each."""

    learned: int
    frozen: int
    fixed: int  # in buffers: the random mixing matrix
    parts: tuple[str, ...]  # what learns, in a few words

    @property
    def total(self) -> int:
        """Learned and frozen parameters; buffers are not parameters."""
        return self.learned + self.frozen

    def __str__(self) -> str:
        counts = [self.learned, self.total]
        if self.total >= 100_000 and self.learned >= 10_000:  # in one unit, and never "0.00 M"
            learned, total = (f"{count / 1e6:.2f} M" for count in counts)
        else:
            learned, total = (f"{count:,}" for count in counts)
        return f"learns {learned} of {total}: {', '.join(self.parts)}"


def census(model: nn.Module, rule: LearnRule, *, ever: bool = True) -> Census:
    """Count parameters by what the rule does with them; `ever` counts what learns at any stage."""
    learns = ever_learning(model, rule) if ever else rule.learning(model)
    size = {name: parameter.numel() for name, parameter in model.named_parameters()}
    learned = sum(size[name] for name in learns)
    return Census(
        learned=learned,
        frozen=sum(size.values()) - learned,
        fixed=sum(buffer.numel() for buffer in model.buffers()),
        parts=tuple(_in_words(list(size), learns)),
    )


def _in_words(names: list[str], learns: set[str]) -> list[str]:
    """What learns, by role: a whole slot by its name, else the modules inside it, and the blocks where these differ."""
    slots: dict[str, dict[str, list[str]]] = {}
    for name in names:
        parts = name.split(".")
        role = [parts[0], *("*" if part.isdigit() else part for part in parts[1:])]
        slot, module = role[: 3 if role[0] == "blocks" else 1], role[:-1] or role
        slots.setdefault(".".join(slot), {}).setdefault(".".join(module), []).append(name)
    words: list[str] = []
    for slot_, modules in slots.items():
        if learns.issuperset(name for held in modules.values() for name in held):
            words.append(slot_.removeprefix("blocks.*."))
            continue
        for module_, held in modules.items():
            inside = module_.removeprefix(f"{slot_}.") if slot_.startswith("blocks.") else module_
            words += _module_in_words(inside.removeprefix("blocks.*."), held, learns)
    return words


def _module_in_words(word: str, held: list[str], learns: set[str]) -> list[str]:
    """One role's parameters, over all blocks: `query`, `query.bias`, `query (block 1, 2)`, or nothing."""
    leaves = _grouped(held, lambda name: name.rsplit(".", 1)[-1])
    blocks = _grouped(held, lambda name: name.split(".")[1] if name.startswith("blocks.") else "")
    on = {key for key, names in leaves.items() if learns.issuperset(names)}
    if on == leaves.keys():
        return [word]
    if all(learns.isdisjoint(names) for key, names in leaves.items() if key not in on):
        return [word if leaf == word else f"{word}.{leaf}" for leaf in leaves if leaf in on]
    here = [key for key, names in blocks.items() if learns.issuperset(names)]
    if all(learns.isdisjoint(names) for key, names in blocks.items() if key not in here):
        return [f"{word} (block {', '.join(here)})"]
    return [f"{word} (in part)"]


def _grouped(names: list[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups

"""Part addresses and the patterns that name them.

An address is a parameter's or module's own dotted name, such as `blocks.3.token_mixer.query.weight`. A pattern is
compared component by component: `*` is one component (`blocks.1` is not block 10), `quer*` a part of one, and `**` any
number of components.
"""

from fnmatch import fnmatchcase


def matches(pattern: str, address: str, *, below: bool = False) -> bool:
    """Whether the pattern names the address or, with `below`, a module that contains it."""
    return _matches(pattern.split("."), address.split("."), below)


def _matches(pattern: list[str], address: list[str], below: bool) -> bool:
    if not pattern:
        return below or not address
    if pattern[0] == "**":
        return any(_matches(pattern[1:], address[start:], below) for start in range(len(address) + 1))
    return bool(address) and fnmatchcase(address[0], pattern[0]) and _matches(pattern[1:], address[1:], below)

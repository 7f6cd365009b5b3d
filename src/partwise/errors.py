"""The errors a user can cause. Each message says what came, what was expected and the nearest right thing."""

import difflib
from collections.abc import Iterable


class PartwiseError(Exception):
    """Something the user can mend; the command line prints its text and no traceback."""


class UnknownName(PartwiseError, LookupError):
    """No part of this kind has that name."""


class UnknownAddress(PartwiseError, LookupError):
    """A pattern names no parameter, or no tap, of this model."""


class ConfigError(PartwiseError, ValueError):
    """A setting is misspelt, has the wrong type, or asks for something impossible."""


class DamagedFile(PartwiseError):
    """A record or checkpoint cannot be read."""


class PluginError(PartwiseError):
    """A file of the user's raised while it was loaded."""


class MissingPackage(PartwiseError, ImportError):
    """Something needs a package that the base install does not bring."""


class Stopped(Exception):
    """Ctrl-C, after all runs have ended."""

    def __str__(self) -> str:
        return "stopped. Finished runs are kept; the same command goes on from the last checkpoints."


def did_you_mean(name: str, known: Iterable[str], *, n: int = 2) -> str:
    """' Did you mean ...?' with the nearest names, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=n)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""

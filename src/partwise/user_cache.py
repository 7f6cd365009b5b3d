"""What is kept between runs and can be made again at any time: token arrays, learned tokenizers, values of floors.

It lies in $PARTWISE_CACHE, else in partwise under $XDG_CACHE_HOME, else in ~/.cache/partwise. Names hold a digest of
all that the content depends on, so nothing there is ever out of date, and everything may be deleted.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock

from partwise.errors import ConfigError
from partwise.records import write_file


def cache_folder() -> Path:
    """Where it lies."""
    own = os.environ.get("PARTWISE_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "partwise"


def cached(name: str, make: Callable[[Path], Any]) -> Path:
    """The file of that name; where it is missing, `make` writes it to a path that it is given, and others wait.

    Raises:
        ConfigError: the folder cannot be written to.
    """
    path = cache_folder() / name
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_name(f"{path.name}.lock")):
            if not path.is_file():
                write_file(path, make)
    except PermissionError:
        raise ConfigError(f"{path.parent} cannot be written to: set PARTWISE_CACHE to a folder that can.") from None
    return path

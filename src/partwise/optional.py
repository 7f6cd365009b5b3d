"""Packages that not everybody needs: what to say where one is missing."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from partwise.errors import MissingPackage


def imported(module: str, *, extra: str, what: str) -> ModuleType:
    """The module.

    Args:
        module: its name.
        extra: of partwise, that brings it.
        what: what needs it, as the message says it.

    Raises:
        MissingPackage: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingPackage(_sentence(module, extra, what)) from None


def folder_of(package: str, *, extra: str, what: str) -> Path:
    """The folder of a package that is read for its files; it is not imported.

    Raises:
        MissingPackage: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackage(_sentence(package, extra, what))
    return Path(spec.submodule_search_locations[0])


def _sentence(package: str, extra: str, what: str) -> str:
    return f'{what} needs the package {package}, which is not installed: pip install "partwise[{extra}]" brings it.'

"""Parts from outside the package: `--plugin FILE`, `[tool.partwise] plugins` in the nearest pyproject.toml, and the
entry point group `partwise.plugins`. A plug-in registers its parts as the lab's own files do."""

import hashlib
import importlib.metadata
import importlib.util
import sys
import tomllib
import traceback
from collections.abc import Iterable
from pathlib import Path

from partwise.errors import PartwiseError, PluginError

_loaded: dict[Path, str] = {}


def load_plugins(files: Iterable[str | Path] = (), *, start: Path | None = None) -> list[Path]:
    """Load the named files, those of the nearest pyproject.toml, and installed entry points, each once.

    Args:
        files: given by hand.
        start: folder whose nearest pyproject.toml counts; None looks for none.

    Returns:
        the files loaded, for child processes that must load them too.

    Raises:
        PluginError: a file is missing or raised, with its name.
    """
    paths = [Path(file) for file in files]
    if start is not None:
        paths += _from_pyproject(start)
    for path in paths:
        load_plugin(path)
    for entry in importlib.metadata.entry_points(group="partwise.plugins"):
        try:
            entry.load()
        except Exception as error:
            raise PluginError(f"plug-in {entry.name!r} ({entry.value}) raised {_words(error)}.") from error
    return list(_loaded)


def load_plugin(file: Path) -> None:
    """Run one file, once; it registers what it brings."""
    path = file.resolve()
    if path in _loaded:
        return
    if not path.is_file():
        raise PluginError(f"there is no plug-in file {file}.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    name = f"partwise_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{file} is no Python file: a plug-in ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except PartwiseError:
        raise
    except Exception as error:
        del sys.modules[name]
        raise PluginError(f"plug-in {file} raised {_words(error)}.") from error
    _loaded[path] = digest


def loaded_hashes() -> dict[str, str]:
    """{file: digest of its content} of the plug-ins in use; a file by its name, with its folder where two share one."""
    names = [path.name for path in _loaded]
    return {
        path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}": digest
        for path, digest in _loaded.items()
    }


def loaded_files() -> list[Path]:
    """The plug-in files in use, which processes that run experiments must load too."""
    return list(_loaded)


def _words(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    return f"{type(error).__name__}: {error} (line {traceback.extract_tb(error.__traceback__)[-1].lineno})"


def _from_pyproject(start: Path) -> list[Path]:
    for folder in (start.resolve(), *start.resolve().parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            try:
                named = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("partwise", {})
            except tomllib.TOMLDecodeError as error:
                raise PluginError(f"{file} cannot be read: {error}.") from None
            files = named.get("plugins", [])
            if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
                raise PluginError(f"{file}: [tool.partwise] plugins is {files!r}; a list of files was expected.")
            return [folder / name for name in files]
    return []

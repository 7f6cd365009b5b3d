"""Names for parts. A catalogue folder fills its own registry from the files beside it, on first use."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from partwise.errors import UnknownName, did_you_mean

Part = TypeVar("Part", bound=type)


def name_of(part: Any) -> str:
    """The name that a part's class is registered under."""
    return type(part).registered_name


class Registry:
    """A dictionary of config classes that fills itself from the files of `package`, on first use.

    A class registered from elsewhere (a plug-in) joins it under the same rule: one name, one class.
    """

    def __init__(self, kind: str, *, package: str | None):
        """`package` is the folder whose files register themselves; None: the classes stand beside the registry."""
        self.kind, self._package = kind, package
        self._classes: dict[str, type] = {}
        self._filled = package is None

    def register(self, name: str) -> Callable[[Part], Part]:
        """Class decorator: list the class under `name`, and tell the class its name.

        The same class may come again, as when a notebook's cell is run twice; the later one counts.

        Raises:
            ValueError: another class has that name; the text says where both are.
        """

        def add(cls: Part) -> Part:
            if not cls.__module__.startswith(f"{self._package}."):
                self._fill()  # a newcomer from outside that takes a name of ours is told so here, not later by our file
            first = self._classes.get(name)
            if first is not None and (first.__module__, first.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ValueError(
                    f"two {self.kind}s are called {name!r}: in {first.__module__} and in {cls.__module__}."
                )
            cls.registered_name = name  # type: ignore[attr-defined]
            self._classes[name] = cls
            return cls

        return add

    def __contains__(self, cls: type) -> bool:
        """Whether this very class is registered here (and not one that inherits from it)."""
        self._fill()
        return self._classes.get(vars(cls).get("registered_name", "")) is cls

    def names(self) -> list[str]:
        """All names, sorted."""
        self._fill()
        return sorted(self._classes)

    def summary(self, name: str) -> str:
        """The first line of the class's docstring."""
        return (self[name].__doc__ or "").strip().split("\n")[0]

    def __getitem__(self, name: str) -> type:
        self._fill()
        if name not in self._classes:
            raise UnknownName(
                f"no {self.kind} is called {name!r}.{did_you_mean(name, self._classes)}"
                f" There are: {', '.join(self.names())}."
            )
        return self._classes[name]

    def _fill(self) -> None:
        if not self._filled and self._package is not None:
            for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                try:
                    importlib.import_module(f"{self._package}.{module.name}")
                except Exception as error:
                    error.add_note(f"raised while the {self.kind}s were read, in {self._package}.{module.name}.")
                    raise
            self._filled = True  # only after the last import: else a failed one leaves a catalogue that looks whole

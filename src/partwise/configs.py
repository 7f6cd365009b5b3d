"""Configs to and from plain data: JSON, `--set` on the command line, `vary` in Python.

A config is a frozen dataclass. A field that takes a registered part says so, `Annotated[..., REGISTRY]`, and the part
is written as {"name": its name, its fields ...}. Leaves are checked by pydantic's TypeAdapter.
"""

import dataclasses
import functools
import hashlib
import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter, ValidationError

from partwise.errors import ConfigError, PartwiseError, did_you_mean
from partwise.registry import Registry

OUTSIDE_DIGEST = {"digest": False}  # metadata of a field that names a run and does not change what it computes


def to_plain(config: Any, *, without_defaults: bool = False) -> Any:
    """Dataclasses to dicts, tuples to lists; registered parts carry their name.

    Args:
        config: a config, or a leaf.
        without_defaults: leave out fields that equal their default, and fields outside the digest.

    Raises:
        ConfigError: a part is not registered, so that its name could not bring it back.
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        own_name = vars(type(config)).get("registered_name")  # not one that is inherited
        plain = {} if own_name is None else {"name": own_name}
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            _check_parts(hints(type(config))[field.name], value, field.name)
            if without_defaults and (field.metadata.get("digest") is False or _is_default(field, value)):
                continue
            plain[field.name] = to_plain(value, without_defaults=without_defaults)
        return plain
    if isinstance(config, (tuple, list)):
        return [to_plain(item, without_defaults=without_defaults) for item in config]
    return config


def _is_default(field: dataclasses.Field, value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return field.default == value and isinstance(field.default, bool) == isinstance(value, bool)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory() == value
    return False


def digest(config: Any) -> str:
    """16 hex digits of the config's meaning: what differs from the defaults, and each part's version above 1.

    So an option that is added later does not orphan old results, and a part whose meaning changed (version raised)
    does not serve old numbers.
    """
    canonical = {"config": to_plain(config, without_defaults=True)}
    versions = {name: version for name, version in sorted(_versions(config)) if version != 1}
    if versions:
        canonical["versions"] = versions
    text = json.dumps(_numbers_alike(canonical), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _numbers_alike(plain: Any) -> Any:
    """lr=1 and lr=1.0 mean the same."""
    if isinstance(plain, dict):
        return {key: _numbers_alike(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_numbers_alike(value) for value in plain]
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _versions(config: Any) -> Iterator[tuple[str, int]]:
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        yield getattr(config, "registered_name", type(config).__qualname__), getattr(config, "version", 1)
        for field in dataclasses.fields(config):
            yield from _versions(getattr(config, field.name))
    elif isinstance(config, (tuple, list)):
        for item in config:
            yield from _versions(item)


def from_plain(kind: Any, data: Any, *, at: str = "") -> Any:
    """Plain data to what the annotation `kind` asks for.

    Args:
        kind: a config class or any annotation of a field.
        data: what `to_plain` gave, or a person wrote; the bare name of a part stands for the part with its defaults.
        at: where it stands, for the message.

    Raises:
        ConfigError: unknown field (with the nearest one), wrong type, impossible value.
        UnknownName: no part of that kind has that name.
    """
    registry, inner = _registry_of(kind)
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        _check_is_part(registry, inner, data, at)
        return data
    if registry is not None:
        return _part_from(registry, inner, data, at)
    if isinstance(inner, type) and dataclasses.is_dataclass(inner):
        return _dataclass_from(inner, data, at)
    if typing.get_origin(inner) is tuple:
        return _tuple_from(typing.get_args(inner), data, at)
    return _leaf(inner, data, at)


def checked(config: Any) -> Any:
    """The same config, every leaf checked as if it had come from a file.

    Raises:
        ConfigError: a wrong type or an impossible value, with its path.
    """
    return from_plain(type(config), _fields_of(to_plain(config)))


def _fields_of(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if key != "name"}


def _tuple_from(kinds: tuple[Any, ...], data: Any, at: str) -> tuple[Any, ...]:
    if not isinstance(data, (list, tuple)):
        raise ConfigError(f"{at or 'this'} is {data!r}: a list was expected.")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(data)
    if len(kinds) != len(data):
        raise ConfigError(f"{at or 'this'} is {data!r}: a list of {len(kinds)} was expected.")
    return tuple(
        from_plain(kind, item, at=f"{at}.{index}") for index, (kind, item) in enumerate(zip(kinds, data, strict=True))
    )


def _registry_of(kind: Any) -> tuple[Registry | None, Any]:
    """The registry an annotation names, and the annotation without it."""
    if typing.get_origin(kind) is typing.Annotated:
        inner, *extras = typing.get_args(kind)
        return next((extra for extra in extras if isinstance(extra, Registry)), None), inner
    return None, kind


def _optional(kind: Any) -> bool:
    return typing.get_origin(kind) in (types.UnionType, typing.Union) and type(None) in typing.get_args(kind)


def _check_parts(kind: Any, value: Any, at: str) -> None:
    registry, inner = _registry_of(kind)
    if registry is not None and value is not None:
        _check_is_part(registry, inner, value, at)
    elif typing.get_origin(inner) is tuple and isinstance(value, tuple) and typing.get_args(inner)[-1] is Ellipsis:
        for index, item in enumerate(value):
            _check_parts(typing.get_args(inner)[0], item, f"{at}.{index}")


def _check_is_part(registry: Registry | None, inner: Any, data: Any, at: str) -> None:
    if registry is not None and type(data) not in registry:
        raise ConfigError(f"{at or 'this'} is {data!r}, which is not registered as a {registry.kind}.")
    if registry is None and isinstance(inner, type) and not isinstance(data, inner):
        raise ConfigError(f"{at or 'this'} is {data!r}: {inner.__name__} was expected.")


def _part_from(registry: Registry, inner: Any, data: Any, at: str) -> Any:
    if data is None and _optional(inner):
        return None
    if isinstance(data, str):
        data = {"name": data}
    if not isinstance(data, dict) or "name" not in data:
        raise ConfigError(f"{at or 'this'} is {data!r}: the name of a {registry.kind} was expected.")
    cls = registry[data["name"]]
    return _dataclass_from(cls, _fields_of(data), at)


@functools.cache
def hints(cls: Any) -> dict[str, Any]:
    """A config's fields and their annotations."""
    every = typing.get_type_hints(cls, include_extras=True)
    return {field.name: every[field.name] for field in dataclasses.fields(cls)}


def _dataclass_from(cls: type, data: Any, at: str) -> Any:
    name = getattr(cls, "registered_name", cls.__name__)
    if not isinstance(data, dict):
        raise ConfigError(f"{at or name} is {data!r}: fields of {name} were expected ({', '.join(hints(cls))}).")
    for key in data:
        _check_field(cls, key, at)
    made = {key: from_plain(hints(cls)[key], value, at=f"{at}.{key}" if at else key) for key, value in data.items()}
    return _construct(cls, made, at)


def _construct(cls: type, fields: dict[str, Any], at: str) -> Any:
    try:
        if not cls.__dataclass_params__.init:  # type: ignore[attr-defined]  # a rule, made of its patterns
            return cls(*next(iter(fields.values()), ()))
        return cls(**fields)
    except PartwiseError as error:
        raise type(error)(f"{at}: {error}" if at else str(error)) from None
    except TypeError as error:
        raise ConfigError(f"{at or cls.__name__}: {error}") from None


def _check_field(cls: type, key: str, at: str) -> None:
    if key not in hints(cls):
        name = getattr(cls, "registered_name", cls.__name__)
        raise ConfigError(
            f"{at + '.' if at else ''}{key}: {name} has no {key!r}.{did_you_mean(key, hints(cls))}"
            f" It has: {', '.join(hints(cls)) or 'nothing to set'}."
        )


@functools.cache
def _adapter(kind: Any) -> TypeAdapter:
    return TypeAdapter(kind)


def _leaf(kind: Any, data: Any, at: str) -> Any:
    if isinstance(data, float) and data.is_integer() and kind in (int, int | None):
        data = int(data)  # 1e3 on the command line
    if isinstance(data, list):
        data = tuple(data)
    try:
        return _adapter(kind).validate_python(data, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigError(f"{at or 'this'} is {data!r}: {reason[0].lower()}{reason[1:]}.") from None


def replaced(config: Any, path: str, value: Any, *, at: str = "") -> Any:
    """A copy of the config with the field at the dotted path set, checked like any other input.

    Args:
        config: any config.
        path: such as "model.token_mixer.n_heads", or "model.blocks.0.token_mixer".
        value: a config, a leaf, or plain data.

    Raises:
        ConfigError, UnknownName: as `from_plain`, with the whole path.
    """
    key, _, rest = path.partition(".")
    here = f"{at}.{key}" if at else key
    if isinstance(config, tuple):
        if not key.isdigit() or int(key) >= len(config):
            raise ConfigError(f"{here}: there are {len(config)} of them, counted from 0.")
        changed = list(config)
        changed[int(key)] = replaced(config[int(key)], rest, value, at=here) if rest else value
        return tuple(changed)  # whose new item is checked below, by the annotation of the field that holds it
    if not dataclasses.is_dataclass(config):
        raise ConfigError(f"{here}: {at} is {config!r}, which has nothing inside to set.")
    cls: Any = type(config)
    _check_field(cls, key, at)
    new = from_plain(hints(cls)[key], replaced(getattr(config, key), rest, value, at=here) if rest else value, at=here)
    fields = {name: getattr(config, name) for name in hints(cls)} | {key: new}
    return _construct(cls, fields, at)


def parsed(setting: str) -> tuple[str, Any]:
    """`task.n_pairs=8` to ("task.n_pairs", 8): the value is JSON where it can be read so, else text.

    Raises:
        ConfigError: there is no "=".
    """
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{setting!r}: key=value was expected, such as task.n_pairs=8.")
    try:
        return key.strip(), json.loads(text)
    except json.JSONDecodeError:
        return key.strip(), text

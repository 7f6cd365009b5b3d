"""What `partwise list` shows, and docs/catalogue.md: every registered part, from its docstring."""

import dataclasses
import inspect
import itertools
import json
from typing import Any

from partwise.ablations import ABLATIONS
from partwise.architectures import architectures
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.configs import hints, to_plain
from partwise.corpora import CORPORA
from partwise.encoders import ENCODERS
from partwise.errors import UnknownName, did_you_mean
from partwise.joins import JOINS
from partwise.parts import LEARN_RULES
from partwise.probes import PROBES
from partwise.recipes import RECIPES, Recipe
from partwise.tasks import TASKS
from partwise.theory import CHECKS
from partwise.token_mixers import TOKEN_MIXERS

REGISTRIES = {
    "tasks": TASKS,
    "token-mixers": TOKEN_MIXERS,
    "channel-mixers": CHANNEL_MIXERS,
    "joins": JOINS,
    "learn-rules": LEARN_RULES,
    "probes": PROBES,
    "ablations": ABLATIONS,
    "corpora": CORPORA,
    "encoders": ENCODERS,
    "recipes": RECIPES,
    "checks": CHECKS,
}


def catalogue(kind: str | None = None) -> list[dict[str, Any]]:
    """Every part, or those of one kind: {"kind", "name", "summary", "fields": {name: default}}.

    Raises:
        UnknownName: no such kind.
    """
    kinds = ["tasks", "architectures", *[name for name in REGISTRIES if name != "tasks"]]
    if kind is not None:
        wanted = kind.replace("_", "-")
        wanted = wanted if wanted in kinds else f"{wanted}s"
        if wanted not in kinds:
            raise UnknownName(
                f"no kind of part is called {kind!r}.{did_you_mean(kind, kinds)} There are: {', '.join(kinds)}."
            )
        kinds = [wanted]
    return [entry for each in kinds for entry in _entries(each)]


def _entries(kind: str) -> list[dict[str, Any]]:
    if kind == "architectures":
        return [
            {"kind": kind, "name": name, "summary": one.summary, "fields": {**one.parts, "learn": to_plain(one.learn)}}
            for name, one in architectures()
        ]
    registry = REGISTRIES[kind]
    if kind == "recipes":
        return [_recipe(name, registry[name]()) for name in registry.names()]
    return [
        {"kind": kind, "name": name, "summary": registry.summary(name), "fields": _fields(registry[name])}
        for name in registry.names()
    ]


def _recipe(name: str, recipe: Recipe) -> dict[str, Any]:
    """A recipe has scales where others have fields."""
    summary = f"{RECIPES.summary(name)} [{', '.join(recipe.scales)}]"
    fields = {scale: one.summary for scale, one in recipe.scales.items()}
    return {"kind": "recipes", "name": name, "summary": summary, "fields": fields}


def _fields(cls: type) -> dict[str, Any]:
    if not dataclasses.is_dataclass(cls):
        return {}
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    return {name: None if defaults[name] is dataclasses.MISSING else to_plain(defaults[name]) for name in hints(cls)}


def render(entries: list[dict[str, Any]], *, as_json: bool) -> str:
    """Text, a line a part under a heading a kind; or JSON."""
    if as_json:
        return json.dumps(entries, indent=1) + "\n"
    width = max(len(entry["name"]) for entry in entries)
    blocks = [
        "\n".join([kind, *(f"  {entry['name']:<{width}}  {entry['summary']}" for entry in members)])
        for kind, members in itertools.groupby(entries, key=lambda entry: entry["kind"])
    ]
    return "\n\n".join(blocks) + "\n"


def page() -> str:
    """docs/catalogue.md: each part with its whole docstring."""
    lines = ["# Catalogue", "", "Generated from the docstrings; `partwise list --json` has the defaults.", ""]
    for kind, members in itertools.groupby(catalogue(), key=lambda entry: entry["kind"]):
        lines += [f"## {kind.replace('-', ' ').capitalize()}", ""]
        for entry in members:
            text = entry["summary"] if kind == "architectures" else inspect.getdoc(REGISTRIES[kind][entry["name"]])
            lines += [f"### `{entry['name']}`", "", "```text", text or "", "```", ""]
    return "\n".join(lines).rstrip() + "\n"

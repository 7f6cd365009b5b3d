"""What varies between the runs of a task: a table's rows are made of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from partwise.records import RunRecord

# never an axis: seeds are what a cell is averaged over, the rest names its column or how it was looked at
NO_AXIS = {
    *("seed", "init_seed", "frozen_seed", "data_seed"),
    *("architecture", "matching", "selection", "probes", "probe_at", "task.name"),
}
RATE = "train.lr"
# what an arm chooses for itself; in all else it must agree with the standard arm that it is measured against
OWN_CHOICE = ("learn", "model.token_mixer", "model.channel_mixer", "model.positions", "train.lr", "train.parts")


def flatten(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"task": {"n_pairs": 8}} as {"task.n_pairs": 8}; lists are leaves."""
    flat: dict[str, Any] = {}
    for key, value in plain.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def settings_of(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """For each run of one task: the fields that vary, with its values.

    A field of the task is an axis if it differs between any two runs. Any other field is one if it differs between
    runs of the same architecture on the same task settings: so neither what makes an architecture, nor a rate that was
    chosen for each size of the task or for each value of another field, splits a row. A field that a record lacks (an
    older one) does not vary by that.
    """
    return axes([(record.architecture, flatten(record.experiment)) for record in records])


def axes(runs: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The same for flattened experiments, each with its architecture's name."""
    flats = [flat for _, flat in runs]
    of_task = [key for key in _varying(flats) if key.startswith("task.")]
    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for architecture, flat in runs:
        alike.setdefault((architecture, identity(_chosen(flat, of_task))), []).append(flat)
    own: dict[str, set[str]] = {}
    for (architecture, _), members in alike.items():
        varying = _varying(members)
        others = [key for key in varying if key != RATE]
        if RATE in varying and _follows(RATE, others, members):
            varying = others
        own.setdefault(architecture, set()).update(varying)
    return [
        _chosen(flat, [key for key in flat if key in of_task or key in own[architecture]])
        for architecture, flat in runs
    ]


def _follows(key: str, others: Sequence[str], flats: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the field has one value wherever all the others agree."""
    seen: dict[str, set[str]] = {}
    for flat in flats:
        seen.setdefault(identity(_chosen(flat, others)), set()).add(identity(flat.get(key)))
    return all(len(values) == 1 for values in seen.values())


def identity(plain: Any) -> str:
    """A hashable stand-in for plain data, equal for equal data."""
    return json.dumps(plain, sort_keys=True, default=str)


def in_words(settings: Mapping[str, Any]) -> str:
    """'n_pairs=8, lr=0.01': the settings as one reads them, without the first part of their names."""
    return ", ".join(f"{key.split('.', 1)[-1]}={_short(value)}" for key, value in settings.items())


def sizes(experiments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The task's own fields that are set and that these flattened experiments have in common."""
    first = experiments[0] if experiments else {}
    return {
        key: value
        for key, value in first.items()
        if key.startswith("task.")
        and key != "task.name"
        and value is not None
        and all(identity(other.get(key)) == identity(value) for other in experiments)
    }


def disagreements(
    ours: Mapping[str, Any], our_experiment: Mapping[str, Any], theirs: Mapping[str, Any], experiment: Mapping[str, Any]
) -> list[str]:
    """The fields that vary in either of two arms and in which the two differ."""
    return [
        key
        for key in {**ours, **theirs}
        if key not in our_experiment
        or key not in experiment
        or identity(our_experiment[key]) != identity(experiment[key])
    ]


def is_own_choice(key: str) -> bool:
    """Whether an arm may differ from standard in this field and still be measured against it."""
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in OWN_CHOICE)


def _varying(flats: Iterable[Mapping[str, Any]]) -> list[str]:
    seen: dict[str, set[str]] = {}
    for flat in flats:
        for key, value in flat.items():
            seen.setdefault(key, set()).add(identity(value))
    return [key for key, values in seen.items() if len(values) > 1 and key not in NO_AXIS]


def _chosen(flat: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: flat[key] for key in keys if key in flat}


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else identity(value)

"""Where numbers are from: how many runs, minutes, when, on what machine."""

from collections.abc import Sequence

from partwise.records import RunRecord


def minutes(records: Sequence[RunRecord]) -> float:
    """Of training and evaluation, over all runs."""
    return sum(record.seconds for record in records) / 60


def origin(records: Sequence[RunRecord]) -> str:
    """'150 runs, 29.3 minutes of training in all, finished 2026-11-30, on ...'."""
    last = max(record.finished for record in records)[:10]
    machines = {record.execution["environment"]["machine"] for record in records if record.execution}
    return (
        f"{len(records)} runs, {minutes(records):.1f} minutes of training in all, finished {last}, "
        f"on {', '.join(sorted(machines)) or 'an unknown machine'}"
    )

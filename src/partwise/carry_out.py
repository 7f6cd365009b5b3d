"""What `run` and `reproduce` share: check, run, print, keep."""

import shlex
import sys
import tempfile
from pathlib import Path

import typer

from partwise.as_drawn import look
from partwise.display import Display, plan_text
from partwise.errors import PartwiseError, Stopped
from partwise.execution import check_device, usable_cores
from partwise.experiment import Experiment
from partwise.records import SELECTION, RunRecord, read_records, write_text
from partwise.report import Places, View, draw, draw_over, draw_places, onsets, origin, render
from partwise.report.depth import depth_grids, draw_depth
from partwise.report.origin import minutes
from partwise.report.table import grids_markdown
from partwise.report.text import grids_text
from partwise.sweep import Options, run_all


def carry_out(
    experiments: list[Experiment],
    out: Path,
    jobs: int | None,
    options: Options,
    dry_run: bool,
    view: View | Places | None = None,
) -> None:
    """Run what is not done, print and keep table and figure (as a sweep's view has it); exit code 1 if a run failed."""
    records = carried_out(experiments, out, jobs, options, dry_run)
    if dry_run:
        return
    if not records:
        raise PartwiseError("nothing was run here: another process has all of it.")
    _publish(out, view)
    failed = [record for record in records if record.status == "failed"]
    for record in failed:
        place = out / "runs" / record.digest / "error.txt"
        said = f"failed: {record.task} {record.architecture} seed {record.seed}: {record.detail} ({place})"
        typer.echo(said, err=True)
    if failed:
        raise typer.Exit(1)


def carried_out(
    experiments: list[Experiment], out: Path, jobs: int | None, options: Options, dry_run: bool
) -> list[RunRecord]:
    """Check everything, then run what is not done; with `dry_run`, say what it would cost."""
    check_device(options.device)
    kinds = {experiment.kind: experiment for experiment in experiments}
    censuses = {kind: experiment.check() for kind, experiment in kinds.items()}
    for one, other in _same_runs(experiments):
        typer.echo(f"{other} is the same run as {one}, and a folder's table has it once.")
    jobs = jobs or max(1, usable_cores() // (options.threads or 1))
    if dry_run:
        typer.echo(plan_text(experiments, jobs), nl=False)
        return []
    _check_writable(out)
    try:
        with Display(experiments, censuses, jobs) as display:
            records = run_all(experiments, out, jobs=jobs, options=options, watch=display.watch)
    except KeyboardInterrupt:
        raise Stopped from None
    for line in display.busy:
        typer.echo(line, err=True)
    return records


def carry_out_as_drawn(experiments: list[Experiment], out: Path, jobs: int | None, fresh: bool, dry_run: bool) -> None:
    """Look at models that nobody trains, print and keep the table and the figure against depth."""
    if dry_run:
        typer.echo(f"{len(experiments)} models are looked at as they are drawn; none is trained:")
        for one in experiments:
            typer.echo(f"  {one.arm}, seed {one.seed}: {one.model.n_blocks} blocks of width {one.model.width}")
        return
    _check_writable(out)
    records = look(experiments, out, jobs=jobs or usable_cores(), fresh=fresh, tell=typer.echo)
    grids = depth_grids(records)
    typer.echo(f"\n{grids_text(grids)}", nl=False)
    last, machine = max(record.finished for record in records)[:10], records[0].execution["environment"]["machine"]
    about = (
        f"`partwise {shlex.join(sys.argv[1:])}`: {len(records)} models as drawn, none trained, {last}, on {machine}."
    )
    write_text(out / "table.txt", f"{about}\n\n{grids_text(grids)}")
    write_text(out / "table.md", f"{about}\n\n{grids_markdown(grids)}")
    draw_depth(records, out / "figure.png", note=about)
    typer.echo(f"\ntable:  {out / 'table.md'} (and .txt)\nfigure: {out / 'figure.png'}")


def _same_runs(experiments: list[Experiment]) -> list[tuple[str, str]]:
    """Architectures that come to the same experiment."""
    first: dict[str, str] = {}
    pairs = [(first.setdefault(one.digest, one.arm), one.arm) for one in experiments]
    return list(dict.fromkeys((one, other) for one, other in pairs if one != other))


def _publish(out: Path, view: View | Places | None) -> None:
    """The table of all that the folder holds, on the screen; table and figure beside the runs."""
    records = read_records(out)
    typer.echo(render(records, "text"), nl=False)
    for suffix, format in (("txt", "text"), ("md", "md"), ("json", "json")):
        about = "" if format == "json" else f"{_about(records, out)}\n\n"
        write_text(out / f"table.{suffix}", about + render(records, format))
    if view is None:
        draw(records, out / "figure.png", note=_about(records, out))
    elif isinstance(view, Places):
        draw_places(records, out / "figure.png", view, note=_about(records, out))
        write_text(out / "onsets.md", f"{_about(records, out)}\n\n{onsets(records, view)}")
    else:
        draw_over(records, out / "figure.png", view, note=_about(records, out))
    typer.echo(f"\ntable:  {out / 'table.md'} (and .txt, .json)\nfigure: {out / 'figure.png'}")


def _about(records: list[RunRecord], out: Path) -> str:
    """Where a table is from: command, runs, minutes, date, machine; and what choosing the rates took."""
    text = f"`partwise {shlex.join(sys.argv[1:])}`: {origin(records)}"
    if (out / SELECTION / "runs").is_dir():
        chosen = read_records(out / SELECTION)
        text += f"; rates chosen by {len(chosen)} more runs, {minutes(chosen):.1f} minutes"
    return f"{text}."


def _check_writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        why = "it is a file, not a folder" if out.is_file() else error.strerror
        raise PartwiseError(f"--out {out} cannot be written: {why}. Name a folder of your own.") from None

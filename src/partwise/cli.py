"""The verbs. Nothing heavy is imported until a verb needs it: `partwise --help` answers at once."""

import errno
import os
import sys
import textwrap
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from partwise import __version__
from partwise.errors import ConfigError, PartwiseError, Stopped, UnknownName, did_you_mean

if TYPE_CHECKING:
    from partwise.experiment import Experiment
    from partwise.sweep import Options


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"partwise {__version__}")
        raise typer.Exit
    return asked


app = typer.Typer(
    name="partwise",
    help="Which parts of a Transformer must learn, and what does each part do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Out = Annotated[Path | None, typer.Option("--out", help="Folder that keeps the runs; a second start goes on there.")]
Seeds = Annotated[str | None, typer.Option("--seeds", help="How many seeds (5), or which (3,7,9).")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Runs at once. Default: one a core.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Of torch, in each run. Default: 1 below 5 M.")]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, mps. Default: cpu.")]
Precision = Annotated[str, typer.Option("--precision", help="float32, bfloat16, or auto: the faster one here.")]
Stack = Annotated[str, typer.Option("--stack", help="Train like runs as one: never, always, or auto: where faster.")]
Match = Annotated[str, typer.Option("--match", help="Arms equal in steps, parameters or flops.")]
Plugin = Annotated[list[Path] | None, typer.Option("--plugin", help="A Python file that registers your own parts.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget what was done before.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run and how long it takes; run nothing.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any field, such as train.steps=800.")
]


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Which parts of a Transformer must learn, and what does each part do?"""


@app.command("list")
def list_(
    kind: Annotated[
        str | None, typer.Argument(help="tasks, token-mixers, architectures, ...; all if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With every field and its default.")] = False,
    plugin: Plugin = None,
    debug: Debug = False,
) -> None:
    """What there is: tasks, mixers, joins, architectures, learn rules, probes, recipes, checks; a line each."""
    _load_plugins(plugin)
    from partwise.catalogue import catalogue, render

    typer.echo(render(catalogue(kind), as_json=as_json), nl=False)


@app.command()
def run(
    task: Annotated[str, typer.Argument(help="Name of a task; its quick recipe's sizes are the defaults.")],
    arch: Annotated[str, typer.Option("--arch", help="Architectures or token mixers, with commas.")] = "standard",
    settings: Settings = None,
    learn: Annotated[str | None, typer.Option(help="Only these addresses learn, with commas.")] = None,
    freeze: Annotated[str | None, typer.Option(help="These addresses stay as drawn as well, with commas.")] = None,
    match: Match = "steps",
    seeds: Seeds = None,
    out: Out = None,
    jobs: Jobs = None,
    threads: Threads = None,
    device: Device = None,
    precision: Precision = "float32",
    stack: Stack = "never",
    plugin: Plugin = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    debug: Debug = False,
) -> None:
    """Train one task under some architectures, and print the table."""
    files = _load_plugins(plugin)
    from partwise.carry_out import carry_out
    from partwise.compose import experiments_for

    experiments = experiments_for(
        task, _names(arch), settings or [], learn=_names(learn), freeze=_names(freeze), seeds=_seeds(seeds) or [0]
    )
    experiments = _matched(experiments, match)
    options = _options(precision, stack, threads, device, fresh, files)
    carry_out(experiments, out or Path("out") / task, jobs, options, dry_run)


@app.command()
def reproduce(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe, such as mixit.")],
    scale: Annotated[str | None, typer.Option(help="tiny, quick, small, large or paper; default: quick.")] = None,
    only: Annotated[str | None, typer.Option(help="Tasks, with commas.")] = None,
    budget: Annotated[str | None, typer.Option(help="Such as 10m: choose seeds and sizes that fit.")] = None,
    match: Match = "steps",
    seeds: Seeds = None,
    out: Out = None,
    jobs: Jobs = None,
    threads: Threads = None,
    device: Device = None,
    precision: Precision = "float32",
    stack: Stack = "never",
    plugin: Plugin = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    debug: Debug = False,
) -> None:
    """Run a paper's comparison at a size that fits your machine, and print the table."""
    files = _load_plugins(plugin)
    from partwise.carry_out import carried_out, carry_out
    from partwise.compose import planned, within_budget
    from partwise.execution import usable_cores
    from partwise.recipes import RECIPES
    from partwise.records import SELECTION, write_text
    from partwise.selection import page

    chosen = RECIPES[recipe]()
    if budget is not None:
        if scale is not None or seeds is not None:
            raise ConfigError("--budget chooses scale and seeds itself; leave out --scale and --seeds.")
        plan = within_budget(chosen, _names(only), _duration(budget), jobs or usable_cores())
        typer.echo("\n".join(plan.sentences))
    else:
        plan = planned(chosen, scale or "quick", _names(only), _seeds(seeds))
    options = _options(precision, stack, threads, device, fresh, files)
    out = out or Path("out") / f"{recipe}-{plan.scale}"
    experiments = plan.experiments
    if plan.grids:
        typer.echo(f"Rates are chosen on validation first: {len(plan.selection_runs())} runs.")
        selected = carried_out(plan.selection_runs(), out / SELECTION, jobs, options, dry_run)
        if not dry_run:
            experiments = plan.with_chosen(selected)
            write_text(out / "rates.md", page(plan.grids, selected))
        typer.echo("Then what is reported:")
    carry_out(_matched(experiments, match), out, jobs, options, dry_run, getattr(chosen, "view", None))


@app.command()
def table(
    folder: Annotated[Path, typer.Argument(help="A folder of runs.")],
    format: Annotated[str, typer.Option("--format", help="text, md, csv, latex or json.")] = "text",
    debug: Debug = False,
) -> None:
    """Print the table of a folder of runs: means, intervals, floors, what is retained, and the verdict."""
    from partwise.records import read_records
    from partwise.report import render

    typer.echo(render(read_records(folder), format), nl=False)


@app.command()
def figure(
    folder: Annotated[Path, typer.Argument(help="A folder of runs.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A png, pdf or svg file.")],
    over: Annotated[
        str | None, typer.Option("--over", help="Scores against this field instead, such as task.n_pairs, or flops.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="With --over: a logarithmic axis.")] = False,
    probe: Annotated[
        str | None, typer.Option("--probe", help="What probes found on the way instead, such as induction.retrieval.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Draw the table (a dot a seed, floor and ceiling) and the learning curves, or scores against a setting."""
    from partwise.records import read_records
    from partwise.report import View, draw, draw_over, draw_steps

    if probe is not None:
        draw_steps(read_records(folder), output, _names(probe))
    elif over is None:
        draw(read_records(folder), output)
    else:
        draw_over(read_records(folder), output, View(over=over, log=log))
    typer.echo(f"figure: {output}")


@app.command()
def claims(
    results: Annotated[Path, typer.Argument(help="A folder whose folders are named small, qk_scale, ...")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A Markdown file, such as claims.md; left out: the screen.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Say which of the papers' claims the runs in a folder confirm, contradict, or cannot resolve, and why."""
    from partwise.claims import page
    from partwise.records import write_text

    text = page(results)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(f"claims: {out}")


@app.command()
def check(
    what: Annotated[str, typer.Argument(help="theory: what papers derive, beside what small models do.")],
    only: Annotated[str | None, typer.Option(help="Checks, with commas; `partwise list checks` shows them.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the lines and figures.")] = Path("out/check-theory"),
    plugin: Plugin = None,
    debug: Debug = False,
) -> None:
    """Hold predictions against measurements, a line each; exit code 1 where one fails."""
    if what != "theory":
        near = did_you_mean(what, ["theory"])
        raise UnknownName(f"nothing is called {what!r} here.{near} What can be checked: theory.")
    _load_plugins(plugin)
    from partwise.checking import check_theory

    lines = check_theory(_names(only), out, typer.echo)
    if not all(line.holds for line in lines):
        raise typer.Exit(1)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A run, or a folder of runs.")],
    b: Annotated[Path, typer.Argument(help="Another.")],
    debug: Debug = False,
) -> None:
    """Say what differs between two runs or folders, and the paired difference of their scores."""
    from partwise.report import compare as compared

    typer.echo(compared(a, b), nl=False)


@app.command()
def probe(
    folder: Annotated[Path, typer.Argument(help="A run, or a folder of runs, with their weights.")],
    names: Annotated[str, typer.Option("--probe", help="Probes, with commas.")] = "induction,head_ablation",
    plugin: Plugin = None,
    debug: Debug = False,
) -> None:
    """Put probes to trained models, each beside the same model as it was drawn; the rows are kept in probes.json."""
    _load_plugins(plugin)
    from partwise.probing import probe_runs

    typer.echo(probe_runs(folder, _names(names)), nl=False)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(help="A run, with its weights.")],
    plugin: Plugin = None,
    debug: Debug = False,
) -> None:
    """A page and a figure on one run: what learned, what it reached, and by which heads; kept beside it."""
    _load_plugins(plugin)
    from partwise.explain import explain as explained

    typer.echo(explained(folder), nl=False)


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help="token-mixer, task or probe.")],
    name: Annotated[str, typer.Argument(help="A Python name, such as my_mixer.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the three files.")] = Path(),
    debug: Debug = False,
) -> None:
    """Write a new part that works, its test, and a two-line recipe that runs it."""
    from partwise.scaffold import write_part

    typer.echo(write_part(kind, name, out), nl=False)


def _load_plugins(files: list[Path] | None) -> tuple[str, ...]:
    from partwise.plugins import load_plugins

    return tuple(str(path) for path in load_plugins(files or [], start=Path.cwd()))


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _seeds(text: str | None) -> list[int] | None:
    """`5` is the seeds 0 to 4; `3,7,9` are these; `3,` is seed 3 alone."""
    if text is None:
        return None
    try:
        seeds = [int(part) for part in text.split(",") if part.strip()] if "," in text else list(range(int(text)))
    except ValueError:
        raise ConfigError(f"--seeds {text}: a number (5) or a list of seeds (3,7,9) was expected.") from None
    seeds = list(dict.fromkeys(seeds))
    if not seeds or min(seeds) < 0:
        raise ConfigError(f"--seeds {text}: at least one seed, none below 0, was expected.")
    return seeds


def _duration(text: str) -> float:
    """`90s`, `10m`, `2h`, or seconds."""
    size = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    try:
        seconds = float(text[:-1]) * size if size else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"--budget {text}: a time such as 90s, 10m or 2h was expected.")
    return seconds


def _matched(experiments: "list[Experiment]", by: str) -> "list[Experiment]":
    from partwise.matching import matched

    return matched(experiments, _one_of("match", by, ("steps", "parameters", "flops")))  # type: ignore[arg-type]


def _one_of(option: str, asked: str, known: tuple[str, ...]) -> str:
    if asked not in known:
        near = did_you_mean(asked, known)
        raise UnknownName(f"--{option} {asked}: there is no such {option}.{near} There are: {', '.join(known)}.")
    return asked


def _options(
    precision: str, stack: str, threads: int | None, device: str | None, fresh: bool, files: tuple[str, ...]
) -> "Options":
    from partwise.sweep import Options

    precision = _one_of("precision", precision, ("float32", "bfloat16", "auto"))
    stack = _one_of("stack", stack, ("never", "auto", "always"))
    how: dict[str, Any] = {"precision": precision, "stack": stack, "threads": threads, "device": device}
    return Options(**how, fresh=fresh, plugins=files)


def main() -> None:
    """Run the command line. An error is one paragraph and exit code 2; --debug adds the traceback."""
    debug = "--debug" in sys.argv
    try:
        app(standalone_mode=True)
    except BrokenPipeError:  # `partwise table ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Stopped as stopped:
        _end(str(stopped), 130)
    except SystemExit as left:
        if left.code == 130:  # Ctrl-C while nothing ran
            _end(str(Stopped()), 130)
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        _end(f"error: {_paragraph(error)}", 2)


def _paragraph(error: Exception) -> str:
    if isinstance(error, PartwiseError):
        return str(error)
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        more = (
            " Free some space and start again: nothing that was written is lost." if error.errno == errno.ENOSPC else ""
        )
        return f"{error.strerror or error}{where}.{more}"
    if "not enough memory" in str(error) or "alloc" in str(error):
        return f"there is not enough memory for this: {str(error).splitlines()[0]}. Choose smaller sizes."
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}: {error} (raised in {Path(last.filename).name}, line {last.lineno}). "
        "Finished runs are kept; --debug shows the traceback."
    )


def _end(text: str, code: int) -> NoReturn:
    width = min(100, max(40, os.get_terminal_size().columns if sys.stderr.isatty() else 100))
    print(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False), file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()

"""What a run leaves on disk, written by atomic rename, so that a kill at any moment leaves the old file or the new one.

OUT/runs/<digest>/experiment.json        what was asked for
                  execution.json         how it is being run: chosen at the first start, reused on resume
                  checkpoint.safetensors while it runs
                  model.safetensors      afterwards
                  record.json            the run, whole: its presence means that the run is finished
                  failure.json, error.txt   in place of record.json: why it stopped; the next start tries again
OUT/as_drawn/<digest>.json               what was seen in a model that nobody trained
"""

import contextlib
import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from partwise.errors import DamagedFile
from partwise.rows import Row

SELECTION = "selection"  # folder of the runs that rates are chosen by; they are never reported
AS_DRAWN = "as_drawn"  # folder of what was seen in models that nobody trained
FORMAT = 1  # of record.json; raised when an older program would misread it
PARTIAL = ".part-"  # how a file begins that is still being written
Status = Literal["done", "diverged", "failed"]


@dataclass(kw_only=True)
class RunRecord:
    """One run, finished or failed, as plain data.

    Args:
        digest: of its experiment.
        architecture: what the table's column calls it.
        matching: in what the arms that it stands beside are equal: steps, parameters or flops.
        selection: how its rates were chosen, in words.
        experiment: the whole experiment, defaults included.
        status: done; diverged (stopped at `steps`, with `detail`); failed (raised, with `detail`).
        steps: training steps done.
        stopped_early: it was solved on validation twice and asked to stop then.
        headline: the task's metric, as {"name", "unit", "better", "low", "high", "perfect"}.
        rows: every measured number.
        history: the learning curve: {"step", "loss", "rate", "gradient_norm"}, and "validation" where it was measured.
        execution: how it was run; bit-equality is promised for an equal one.
        seconds: of training and evaluation, over all starts.
        finished: when, UTC, ISO 8601.
        format: of the file.
    """

    digest: str
    architecture: str
    matching: str
    selection: str
    experiment: dict[str, Any]
    status: Status
    detail: str = ""
    steps: int = 0
    stopped_early: bool = False
    headline: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    execution: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    finished: str = ""
    format: int = FORMAT

    @property
    def task(self) -> str:
        """The task's registered name."""
        return self.experiment["task"]["name"]

    @property
    def seed(self) -> int:
        """The one seed that sets all the others."""
        return self.experiment["seed"]

    def value(self, quantity: str, *, where: str = "test") -> float:
        """The number of that name; nan if it was not measured."""
        return next((row.value for row in self.rows if row.quantity == quantity and row.where == where), math.nan)

    def to_json(self) -> str:
        """Readable JSON; numbers that JSON lacks (nan, inf) become null."""
        plain = dataclasses.asdict(self)
        plain["rows"] = [_compact(dataclasses.asdict(row)) for row in self.rows]
        return json.dumps(_finite(plain), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_file(cls, path: Path) -> "RunRecord":
        """Read `record.json` or `failure.json`; fields that this version does not know are passed over.

        Raises:
            DamagedFile: it is not what `to_json` wrote, or a newer program wrote it in another format.
        """
        plain = read_json(path)
        try:
            if plain.get("format", FORMAT) > FORMAT:
                raise DamagedFile(
                    f"{path} was written by a newer partwise (format {plain['format']}, and this one reads {FORMAT}): "
                    "read it with that one, or choose another folder."
                )
            plain = {key: value for key, value in plain.items() if key in cls.__dataclass_fields__}
            plain["rows"] = [_row_from(row) for row in plain["rows"]]
            return cls(**plain)
        except (TypeError, KeyError, AttributeError) as error:
            raise DamagedFile(f"{path} is no record of a run ({error}); remove it and start the run again.") from None


def read_records(folder: Path) -> list[RunRecord]:
    """Every run under the folder that ended, in a stable order; a diverged or failed one is a record, not a gap.

    Runs below a folder `selection` are left out: rates are chosen by them and nothing else.

    Raises:
        DamagedFile: no run is there, or one cannot be read.
    """
    if not folder.is_dir():
        raise DamagedFile(f"there is no folder {folder}.")
    found = [path for name in ("failure.json", "record.json") for path in sorted(folder.rglob(name))]
    paths = {path.parent: path for path in found if SELECTION not in path.relative_to(folder).parts}
    if not paths:
        raise DamagedFile(f"no finished run is in {folder}: no record.json below it.")
    return [RunRecord.from_file(paths[place]) for place in sorted(paths)]


def read_as_drawn(folder: Path) -> list[RunRecord]:
    """What was seen in models as drawn, in a stable order; none where nobody looked."""
    return [RunRecord.from_file(path) for path in sorted((folder / AS_DRAWN).glob("*.json"))]


def read_json(path: Path) -> Any:
    """Parse a JSON file of ours.

    Raises:
        DamagedFile: missing, unreadable or cut short.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedFile(f"{path} is damaged ({error}); remove it and start the run again.") from None
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}.") from None


def write_json(path: Path, plain: Any) -> None:
    """Readable JSON by atomic rename."""
    write_text(path, json.dumps(_finite(plain), indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Text by atomic rename."""
    write_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a file beside `path`, force it to disk, then rename it; on failure nothing is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL, suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == name:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _compact(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "experiment"}


def _finite(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _row_from(plain: dict[str, Any]) -> Row:
    known = {key: value for key, value in plain.items() if key in Row.__dataclass_fields__}
    return Row(**known | {"value": math.nan if plain["value"] is None else plain["value"]})

"""How a run is carried out: the second half of its record. Chosen at the first start and reused on resume."""

import contextlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from partwise.errors import ConfigError
from partwise.plugins import loaded_hashes
from partwise.updates import Precision

SMALL = 5_000_000  # parameters; below it one thread is the default, since two can be slower next to a busy process


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Everything that may change the bits of a run and not its meaning.

    Args:
        precision: of the arithmetic; weights and optimizer stay in float32.
        threads: of torch.
        device: cpu, cuda, cuda:1, mps.
        stacked: how many models were trained as one (population.py).
        environment: versions, machine, git state of the code, digests of plug-ins; what a calibration found.
    """

    precision: Precision = "float32"
    threads: int = 1
    device: str = "cpu"
    stacked: int = 1
    environment: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "bfloat16"):
            raise ConfigError(f"precision is {self.precision!r}: float32 or bfloat16 was expected.")
        for name in ("threads", "stacked"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: at least 1 was expected.")

    def to_plain(self) -> dict[str, Any]:
        """For execution.json."""
        return asdict(self)

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Set the thread count, and put it back."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def choose_execution(
    model: nn.Module,
    *,
    precision: Precision = "float32",
    threads: int | None = None,
    device: str | None = None,
    at_once: int = 1,
) -> Execution:
    """Fill in what was left open: float32, the CPU, one thread for a small model and a share of the cores for a large
    one, where `at_once` runs go on side by side.

    Raises:
        ConfigError: the device is not there.
    """
    chosen = device or "cpu"
    check_device(chosen)
    if threads is not None and threads < 1:
        raise ConfigError(f"threads is {threads}: at least 1 was expected.")
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    usual = 1 if n_parameters < SMALL or chosen != "cpu" else max(1, usable_cores() // at_once)
    threads = usual if threads is None else threads
    return Execution(precision=precision, threads=threads, device=chosen, environment=environment())


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def continued(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The environment of a resumed run: the present one and, where it differs, those before it."""
    earlier = before.get("before", [])
    last = {key: value for key, value in before.items() if key != "before"}
    if last != now:
        earlier = [*earlier, last]
    return now | ({"before": earlier} if earlier else {})


def check_device(device: str | None) -> None:
    """Put a number there.

    Raises:
        ConfigError: the device is not there, or is no device.
    """
    try:
        torch.empty(1, device=device or "cpu")
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        if "Expected one of" in reason:
            reason = "there is no such device"
        known = "cpu always can; cuda, cuda:1 or mps where there is one"
        raise ConfigError(f"device {device!r} cannot be used here: {reason}. What can: {known}.") from None


def environment() -> dict[str, Any]:
    """Versions, machine and code state, for the record."""
    packages = ("partwise", "torch", "numpy", "safetensors")
    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in packages},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "git": _git_state(),
        "plugins": loaded_hashes(),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _git_state() -> str | None:
    """Commit of the code, with "+" where it has uncommitted changes; None outside a checkout."""
    here = Path(__file__).resolve().parent
    if not (here.parents[1] / ".git").exists():
        return None
    try:
        ask = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        return subprocess.run(ask, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None

"""Where and beside what something was measured."""

import os
import platform
import re
from pathlib import Path
from typing import Any

import torch

from partwise.execution import usable_cores

FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "asimd", "sve", "bf16")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, versions, load at the start."""
    name, features = _cpu()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return {
        "cpu": name,
        "features": features,
        "cores": usable_cores(),
        "memory_gib": round(pages / 2**30, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load_at_start": load(),
    }


def load() -> float | None:
    """Processes that wanted to run, averaged over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _cpu() -> tuple[str, list[str]]:
    """The processor's name and those of its features that decide how fast matrices multiply."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine(), [torch.backends.cpu.get_cpu_capability()]
    fields = dict(re.findall(r"^(.+?)\s*: (.*)$", told, re.MULTILINE))
    flags = fields.get("flags", fields.get("Features", "")).split()
    return fields.get("model name", platform.machine()), [name for name in FEATURES if name in flags]

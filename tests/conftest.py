"""One thread, shapes checked at run time, and no test that leaves the global settings changed."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

sys.path.insert(0, str(Path(__file__).parent))  # typechecker.py, which the hook imports by name
install_import_hook("partwise", "typechecker.checked")
torch.set_num_threads(1)
# What tests tokenize and count is gone with them, and no test asks the hub; both are read on import.
_CACHE = tempfile.TemporaryDirectory(prefix="partwise-cache-")
os.environ |= {"PARTWISE_CACHE": _CACHE.name, "HF_HOME": f"{_CACHE.name}/hf", "HF_HUB_OFFLINE": "1"}
# A shell starts what it puts in the background with Ctrl-C ignored, and so would be every child that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _settings_stay_as_they_were():
    before = torch.get_num_threads(), torch.get_default_dtype()
    yield
    after = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(before[0])
    torch.set_default_dtype(before[1])
    assert after == before, f"the test left (threads, default dtype) at {after}; they were {before}."


@pytest.fixture(autouse=True)
def _catalogues_stay_as_they_were():
    """What a test registers, or loads as a plug-in, is gone after it: no other test meets it."""
    from partwise import architectures, plugins
    from partwise.catalogue import REGISTRIES

    held = [plugins._loaded, architectures._CATALOGUE]
    for registry in REGISTRIES.values():
        registry.names()  # filled, so that what is there is whole
        held.append(registry._classes)
    before = [dict(names) for names in held]
    yield
    for names, then in zip(held, before, strict=True):
        names.clear()
        names.update(then)

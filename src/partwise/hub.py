"""The Hugging Face hub: is it a name or a path, and can the hub be reached? Asked first, since its own libraries try a
server that is not there for half a minute."""

import contextlib
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from partwise.errors import ConfigError, PartwiseError

PATIENCE = 3.0  # seconds
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
SWITCH = "HF_HUB_OFFLINE"


def is_path(name: str) -> bool:
    """Whether a folder or file is there, or the name could be nothing else.

    Raises:
        ConfigError: it can only be a path, and there is nothing.
    """
    if Path(name).expanduser().exists():
        return True
    if NAME.fullmatch(name) and not name.startswith("."):
        return False
    raise ConfigError(f"there is no file or folder {name}; a name of the hub looks like owner/name.")


def reachable() -> bool:
    """Whether the hub may be asked: not forbidden, and its server answers (a proxy is trusted to)."""
    if os.environ.get(SWITCH, "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    server = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    with contextlib.suppress(OSError):
        socket.create_connection((server.hostname or "", server.port or 443), timeout=PATIENCE).close()
        return True
    return False


@contextlib.contextmanager
def asked(name: str, kind: str) -> Iterator[None]:
    """Ask the hub inside, or only its cache on this machine where it cannot be reached.

    Args:
        name: what is asked for.
        kind: what that is, for the message.

    Raises:
        ConfigError: it is not on this machine and the hub cannot be reached, or does not have it.
    """
    online = reachable()
    with contextlib.nullcontext() if online else _offline():
        try:
            yield
        except PartwiseError:  # ours, of what came
            raise
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            if online:
                raise ConfigError(f"the hub does not give the {kind} {name}: {reason}.") from None
            raise ConfigError(
                f"the {kind} {name} is not on this machine, and the hub cannot be reached: check the network"
                f" (and {SWITCH}), or name a local file."
            ) from None


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Their switch is read when they are imported; afterwards it is these two."""
    import huggingface_hub.constants

    switches = [huggingface_hub.constants, *(sys.modules[name] for name in ("datasets.config",) if name in sys.modules)]
    before = [module.HF_HUB_OFFLINE for module in switches]
    for module in switches:
        module.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, was in zip(switches, before, strict=True):
            module.HF_HUB_OFFLINE = was  # type: ignore[attr-defined]

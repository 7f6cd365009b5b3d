"""Tensors on disk: safetensors only. Pickles are refused, since reading one runs whatever it holds."""

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from partwise.errors import DamagedFile
from partwise.records import write_file


def save_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    """Write tensors and a JSON note as one file, by atomic rename."""
    # Clones, since two buffers of a user's module may be views of one storage, which the format does not know.
    held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(held, temporary, metadata={"note": json.dumps(note)})
        except SafetensorError as error:
            if "os error 28" in str(error):
                raise OSError(errno.ENOSPC, "No space left on device", str(path)) from None
            raise

    write_file(path, write)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote.

    Raises:
        DamagedFile: missing, cut short, or no safetensors file (a pickle, for one).
    """
    if not path.is_file():
        raise DamagedFile(f"there is no checkpoint {path}.")
    with path.open("rb") as head:
        start = head.read(2)
    if start in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise DamagedFile(f"{path} looks like a pickle, which can run code when read; only safetensors are loaded.")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads((file.metadata() or {})["note"])  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        raise DamagedFile(f"{path} is damaged ({error}); remove it and start the run again.") from None


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each tensor once: a tied one, or one of a shared module, by its first name."""
    first = {id(tensor): name for name, tensor in reversed(model.state_dict(keep_vars=True).items())}
    return {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if first[id(tensor)] == name}


def fingerprint(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bits, in the order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def load_weights(model: nn.Module, tensors: dict[str, Tensor], *, source: Path) -> None:
    """Fill the model; every tensor must be there, with its shape, and no other.

    Raises:
        DamagedFile: names or shapes differ from the model's.
    """
    expected = weights(model)
    wrong = sorted(expected.keys() ^ tensors.keys()) or sorted(
        name for name in expected if expected[name].shape != tensors[name].shape
    )
    if wrong:
        raise DamagedFile(f"{source} does not fit this model: {', '.join(wrong[:4])} differ.")
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])

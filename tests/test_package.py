"""What is installed, and what importing it costs."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import partwise

ROOT = Path(__file__).parents[1]


def python(code: str, *, cwd: Path | None = None) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cwd
    ).stdout.strip()


def test_importing_loads_nothing_heavy_opens_no_socket_and_starts_no_process():
    code = (
        "import sys\n"
        "events = []\n"
        "sys.addaudithook(lambda name, args: events.append(name))\n"
        "import partwise, partwise.cli\n"
        "bad = {e for e in events if e.startswith(('socket.', 'subprocess.', 'os.fork', 'os.posix_spawn'))}\n"
        "print(sorted(bad), sorted({'torch', 'numpy', 'scipy', 'matplotlib', 'rich', 'pydantic'} & set(sys.modules)))"
    )
    assert python(code) == "[] []"


def test_importing_every_module_opens_no_socket_and_starts_no_process():
    code = (
        "import sys, torch, torch._dynamo\n"  # torch itself may ask the machine what it is
        "events = []\n"
        "sys.addaudithook(lambda name, args: events.append(name))\n"
        "import importlib, pkgutil, partwise\n"
        "for m in pkgutil.walk_packages(partwise.__path__, 'partwise.'): importlib.import_module(m.name)\n"
        "print(sorted({e for e in events if e.startswith(('socket.', 'subprocess.', 'os.fork', 'os.posix_spawn'))}))"
    )
    assert python(code) == "[]"


def test_help_needs_no_torch():
    code = (
        "import sys\nfrom partwise.cli import main\nsys.argv = ['partwise', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    print('torch' in sys.modules)"
    )
    assert python(code).endswith("False")


def test_every_public_name_is_there_and_typed_as_it_is_at_run_time():
    stated = {
        (alias.asname or alias.name, node.module)
        for node in ast.walk(ast.parse((ROOT / "src/partwise/__init__.py").read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("partwise.")
        for alias in node.names
    }
    assert {name for name, _ in stated} == set(partwise.__all__)
    for name, module in stated:
        assert getattr(partwise, name) is not None
        assert f"partwise.{partwise._PLACE_OF[name][0]}" == module, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = partwise.nothing


def _name(package):
    return package.lower().replace("-", "_")


def test_what_is_imported_is_declared_and_what_is_declared_is_pinned():
    declared = {_name(re.split(r"[<>=;\[ ]", need)[0]) for need in importlib.metadata.requires("partwise") or ()}
    imported = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    outside = imported - set(sys.stdlib_module_names) - {"partwise"}
    assert outside <= declared
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {_name(line.split("==")[0]) for line in lines if "==" in line}
    assert declared <= pinned


def test_the_wheel_works_in_an_empty_environment_outside_the_checkout(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    # Empty but for what the wheel needs, lent by this environment, so that the test works without the network.
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    own = Path(python("import sysconfig; print(sysconfig.get_path('purelib'))"))
    (site,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(site), str(wheel)], check=True, capture_output=True)
    (site / "lent.pth").write_text(f"{own}\n")
    there = str(tmp_path / "env/bin/python")
    where = subprocess.run(
        [there, "-c", "import partwise; print(partwise.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout.strip()
    assert where == str(site / "partwise/__init__.py")
    assert (site / "partwise/py.typed").is_file()
    dry = [there, "-m", "partwise.cli", "reproduce", "mixit", "--dry-run"]
    said = subprocess.run(dry, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "30 runs, at most" in said

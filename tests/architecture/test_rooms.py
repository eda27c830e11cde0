"""The house: who imports whom, and what the command line costs to start."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sweeper"
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def test_the_rooms_import_downwards_only():
    linter = Path(sys.executable).with_name("lint-imports")

    run = subprocess.run(
        [linter, "--no-cache"], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout


def test_importing_the_command_line_loads_nothing_heavy():
    """import-linter misses an import inside a package's __init__; a fresh interpreter does not."""
    code = (
        "import sys, sweeper.cli.main; "
        "print({'torch', 'transformers', 'peft', 'tokenizers', 'matplotlib'} & {*sys.modules})"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "set()"


def test_importing_the_package_loads_no_room_and_no_dependency():
    code = (
        "import sys, sweeper; loaded = {name.partition('.')[0] for name in sys.modules}; "
        "rooms = [name for name in sys.modules if name.startswith('sweeper.')]; "
        "print(rooms, loaded & {'pandas', 'numpy', 'pydantic', 'torch', 'sqlalchemy', 'optuna'})"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[] set()"


def is_docstring_only(source):
    """Whether it says what the room is for, and nothing else."""
    body = ast.parse(source).body
    return [type(node) for node in body] == [ast.Expr] and len(body[0].value.value.split()) > 5


def test_a_room_s_init_holds_a_docstring_only():
    inits = {str(room.relative_to(PACKAGE)): room / "__init__.py" for room in ROOMS}

    assert len(inits) > 10
    assert [room for room, file in inits.items() if not is_docstring_only(file.read_text())] == []


@pytest.mark.parametrize("vague", ["utils", "common", "helpers", "base", "core", "manager"])
def test_no_module_is_named(vague):
    assert list(PACKAGE.rglob(f"{vague}.py")) + list(PACKAGE.rglob(f"{vague}/")) == []


def lines_of(function):
    """Lines of a function, its docstring left out."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = first.end_lineno - first.lineno + 1 if is_docstring else 0
    return function.end_lineno - function.lineno + 1 - docstring


def test_no_function_is_longer_than_60_lines():
    long = [
        f"{module.relative_to(PACKAGE)}: {node.name}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef) and lines_of(node) > 60
    ]

    assert long == []


def test_a_module_stays_under_500_lines():
    lines = {str(m.relative_to(PACKAGE)): len(m.read_text().splitlines()) for m in MODULES}

    assert {module: count for module, count in lines.items() if count > 500} == {}

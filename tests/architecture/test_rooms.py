"""The house: who imports whom, and what the command line costs to start."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sweeper"
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def test_the_rooms_import_downwards_only():
    linter = Path(sys.executable).with_name("lint-imports")

    run = subprocess.run(
        [linter, "--no-cache"], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("heavy", ["torch", "transformers", "peft", "tokenizers", "matplotlib"])
def test_importing_the_command_line_does_not_load(heavy):
    """import-linter misses an import inside a package's __init__; a fresh interpreter does not."""
    code = f"import sys, sweeper.cli.main; sys.exit({heavy!r} in sys.modules)"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr or f"{heavy} was loaded"


def test_importing_the_package_loads_no_room_and_no_dependency():
    code = (
        "import sys, sweeper; loaded = {name.partition('.')[0] for name in sys.modules}; "
        "rooms = [name for name in sys.modules if name.startswith('sweeper.')]; "
        "print(rooms, loaded & {'pandas', 'numpy', 'pydantic', 'torch', 'sqlalchemy', 'optuna'})"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[] set()"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(PACKAGE)))
def test_a_room_s_init_holds_a_docstring_only(room):
    source = (room / "__init__.py").read_text()

    tree = ast.parse(source)

    assert [type(node).__name__ for node in tree.body] == ["Expr"]
    assert len(tree.body[0].value.value.split()) > 5, "say what it is for"


@pytest.mark.parametrize("vague", ["utils", "common", "helpers", "base", "core", "manager"])
def test_no_module_is_named(vague):
    assert list(PACKAGE.rglob(f"{vague}.py")) + list(PACKAGE.rglob(f"{vague}/")) == []


def lines_of(function):
    """Lines of a function, its docstring left out."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = first.end_lineno - first.lineno + 1 if is_docstring else 0
    return function.end_lineno - function.lineno + 1 - docstring


@pytest.mark.parametrize(
    "module", sorted(PACKAGE.rglob("*.py")), ids=lambda m: str(m.relative_to(PACKAGE))
)
def test_no_function_of_a_module_is_longer_than_60_lines(module):
    functions = [
        node
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]

    assert [f.name for f in functions if lines_of(f) > 60] == []


@pytest.mark.parametrize(
    "module", sorted(PACKAGE.rglob("*.py")), ids=lambda m: str(m.relative_to(PACKAGE))
)
def test_a_module_stays_under_500_lines(module):
    assert len(module.read_text().splitlines()) <= 500

"""The house: who imports whom, and what the command line costs to start."""

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


@pytest.mark.parametrize("heavy", ["torch", "transformers", "peft", "tokenizers"])
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

    tree = compile(source, str(room), "exec", flags=1024)  # ast.PyCF_ONLY_AST

    assert [type(node).__name__ for node in tree.body] == ["Expr"]
    assert len(tree.body[0].value.value.split()) > 5, "say what it is for"


@pytest.mark.parametrize("vague", ["utils", "common", "helpers", "base", "core", "manager"])
def test_no_module_is_named(vague):
    assert list(PACKAGE.rglob(f"{vague}.py")) + list(PACKAGE.rglob(f"{vague}/")) == []


@pytest.mark.parametrize(
    "module", sorted(PACKAGE.rglob("*.py")), ids=lambda m: str(m.relative_to(PACKAGE))
)
def test_a_module_stays_under_500_lines(module):
    assert len(module.read_text().splitlines()) <= 500

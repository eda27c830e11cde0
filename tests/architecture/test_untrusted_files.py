"""Files are read as data: nothing that can run code is ever loaded from one."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sweeper"
MODULES = sorted(PACKAGE.rglob("*.py"))

RUNS_CODE = frozenset({"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"})
LOADS = frozenset(
    {
        *("joblib.load", "torch.jit.load", "torch.package.PackageImporter", "pandas.read_pickle"),
        *("pd.read_pickle", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "eval", "exec"),
    }
)


def dotted(node):
    """The name that a call is made by, as far as it is one: `torch.load`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def keyword(call, name):
    """What the call sets that argument to; None where it does not."""
    given = [word.value for word in call.keywords if word.arg == name]
    return given[0].value if given and isinstance(given[0], ast.Constant) else None


def is_unsafe(call):
    name = dotted(call.func)
    return (
        name in LOADS
        or (name == "torch.load" and keyword(call, "weights_only") is not True)
        or (name.endswith(".load") and keyword(call, "allow_pickle") is True)
        or keyword(call, "trust_remote_code") is True
    )


def faults_in(source):
    tree = ast.parse(source)
    modules = [
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [name for name in modules if name.partition(".")[0] in RUNS_CODE] + [
        dotted(call.func) for call in calls if is_unsafe(call)
    ]


def test_no_module_unpickles_anything():
    found = {str(m.relative_to(PACKAGE)): faults_in(m.read_text("utf-8")) for m in MODULES}

    assert len(found) > 100
    assert {module: faults for module, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import dill as json",
        "torch.load(file)",
        "torch.load(file, weights_only=False)",
        "joblib.load(file)",
        "np.load(file, allow_pickle=True)",
        "pd.read_pickle(file)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
    ],
)
def test_such_a_line_would_be_found(source):
    assert len(faults_in(source)) == 1


@pytest.mark.parametrize(
    "source", ["torch.load(f, weights_only=True)", "np.load(f)", "json.load(f)"]
)
def test_a_harmless_one_is_not(source):
    assert faults_in(source) == []

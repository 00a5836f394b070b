"""The house: floors (of rooms, and within a room), no circles, doors (of libraries and of systems), light workers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache

import pytest

from daskfs.losses import LOSSES
from tests.imports import MODULES, PACKAGE, PATH_OF, ROOT, imports_of, name_of, tree_of

FLOORS = [  # from the top down, as docs/architecture.md shows them
    {"__main__"},
    {"cli"},
    {"__init__"},
    {"pipeline"},
    {"report"},
    {"applied"},
    {"model_selection"},
    {"baselines"},
    {"selectors"},
    {"feature_maps", "sources"},
    {"store"},
    {"matrix"},
    {"dashboard"},
    {"cluster", "kernels", "result", "metrics"},
    {"figures"},
    {"cells", "evidence", "methods", "parameters", "selected_table", "watching"},
    {"losses"},
    {"bundled", "documents", "files"},
    {"objects"},
    {"errors", "interrupts"},
    {"error_topics", "version"},
    {"_version"},  # made when installed
]
FLOOR_OF = {room: height for height, rooms in enumerate(reversed(FLOORS)) for room in rooms}

DOORS = {  # library: the rooms or modules that may import it
    "numba": {"kernels"},
    "dask": {"cluster", "matrix", "sources.dataframe"},
    "distributed": {"cluster", "dashboard"},
    "zarr": {"store"},
    "numcodecs": {"store"},
    "pyarrow": {"sources", "result", "applied.apply"},
    "typer": {"cli"},
    "rich": {"cli", "watching"},
    "yaml": {"documents"},
    "pydantic": {"documents", "pipeline", "sources"},
    "matplotlib": {"figures"},
    "jinja2": {"report"},
    "obstore": {"objects"},
    "boto3": {"objects"},
    "bokeh": {"dashboard"},
    "sklearn": {"selectors", "baselines", "model_selection", "sources.sklearn_sets", "sources.sparse.ngrams"},
}

SYSTEMS = {path.parent.name for path in PACKAGE.glob("selectors/*/__init__.py")} - {"shared", "diagnostics"}

INNER_FLOORS = {  # within a room, from the top down; packages and files not named here stand below these
    "selectors": [
        {"asy_os"},
        SYSTEMS - {"asy_os"},
        {"from_blocks", "grouped", "included", "sized"},
        {"base"},  # what every selector offers, from these parts
        {"fitted", "opening"},
        {"diagnostics", "predicting", "resulting"},
        {"shared"},
        {"inputs"},
    ],
    "kernels": [
        {"baselines", "fgm", "group_lasso", "substitution"},
        {"glm", "sketch"},
        {"lasso"},
        {"blocks", "genotypes"},
        {"linear"},
    ],
    "baselines": [{"lasso", "columns", "linear", "thresholding"}],
    "pipeline": [{"schemas"}, {"run"}, {"compile_ahead", "cost"}, {"plan"}, {"steps"}],
    "report": [{"runs"}, {"html"}, {"comparison", "features", "summary"}, {"tables"}],
}

TASKS = {"map": 1, "each": 1, "reduce": 1, "map_blocks": 0, "reduce_blocks": 0, "keep_running": 1}
"""What sends a function to workers -> which of its arguments that is."""

HEAVY = {
    "zarr",
    "pandas",
    "pyarrow",
    "pydantic",
    "sklearn",
    "scipy.sparse",
    "scipy.linalg",
    "matplotlib",
    "typer",
    "rich",
}

COMPILER_INTERNALS = {"numba.core", "llvmlite"}
"""What numba's documentation does not name, and the intermediate language below it."""
ALLOWED = {"kernels.intrinsics"}
"""The files that may import these."""
SETTINGS = {  # a documented setting of a library for the whole process: who sets it, and why that may be
    "numcodecs.blosc.use_threads": {"store.tile_reader"},  # Zarr sets the same: Blosc's threads are no pool for many
}
DOCUMENTED = {"_asdict", "_getframe"}
"""Names of Python's own that begin with an underscore and are documented all the same."""
EVERYBODYS = {"gc.set_threshold", "gc.freeze", "gc.disable"}
"""Functions that change the process for all who run in it."""


def is_private(name: str) -> bool:
    """``_set_output`` of ``sklearn.utils._set_output``; dunder names are Python's."""
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def not_public(text: str, module: str) -> list[tuple[int, str]]:
    """Every place of a module's text that leaves public ground, with what is done there."""
    nodes = [*ast.walk(ast.parse(text))]
    found = [(n, "reads __bases__") for n, line in enumerate(text.splitlines(), 1) if "__bases__" in line]
    full_name = {}  # of what an import binds, by the name that it is bound to
    for node in nodes:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for alias in node.names:
            name = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            bound = alias.asname or alias.name
            full_name[bound.split(".")[0]] = (
                name if alias.asname or isinstance(node, ast.ImportFrom) else bound.split(".")[0]
            )
            if name.split(".")[0] in {"daskfs", *sys.stdlib_module_names}:
                continue
            if is_private(name):
                found.append((node.lineno, f"imports {name}"))
            if any(f"{name}.".startswith(f"{one}.") for one in COMPILER_INTERNALS) and module not in ALLOWED:
                found.append((node.lineno, f"imports {name}"))

    def name_in_full(node: ast.AST) -> str:
        """``numba.config.X`` of an attribute of what was imported, ``sys.modules`` of an item of it; else nothing."""
        match node:
            case ast.Name(id=name):
                return full_name.get(name, "")
            case ast.Attribute(value=value, attr=attribute):
                owner = name_in_full(value)
                return owner and f"{owner}.{attribute}"
            case ast.Subscript(value=value):
                return name_in_full(value)
        return ""

    for node in nodes:
        if not isinstance(node, ast.Attribute | ast.Subscript):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("setattr", "delattr")
                and name_in_full(node.args[0])
            ):
                found.append((node.lineno, f"sets an attribute of {name_in_full(node.args[0])}"))
            continue
        name, is_written = name_in_full(node), isinstance(node.ctx, ast.Store | ast.Del)
        if name in EVERYBODYS or (name == "sys.modules" and is_written and isinstance(node, ast.Subscript)):
            found.append((node.lineno, f"changes the process by {name}"))
        if name.split(".")[0] in {"", "daskfs", *sys.stdlib_module_names}:
            continue
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            found.append((node.lineno, f"reads {name}"))
        if is_written and module not in SETTINGS.get(name, ()):
            found.append((node.lineno, f"sets {name}"))
    return found


def room_imported(module: str) -> str | None:
    """The room of daskfs that ``import module`` enters; the front door for ``daskfs`` itself and its public names."""
    parts = module.split(".")
    if parts[0] != "daskfs":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in FLOOR_OF else "__init__"


def test_a_room_imports_only_rooms_below_it():
    wrong = []
    for path in MODULES:
        room = name_of(path).split(".")[0]
        assert room in FLOOR_OF, f"{path.name} stands in no room: give it a floor here and in docs/architecture.md"
        for line, module in imports_of(path):
            imported = room_imported(module)
            if imported not in (None, room) and FLOOR_OF[imported] >= FLOOR_OF[room]:
                wrong.append(f"{path}:{line}: {room} may not import {module}")
    assert wrong == []


def test_benchmarks_are_imported_by_their_own_tests_alone():
    """Scripts may take tools from tests; what tests of other rooms need is no script."""
    wrong = []
    for path in (ROOT / "tests").rglob("*.py"):
        if ROOT / "tests" / "benchmarks" not in path.parents and "benchmarks" in path.read_text(encoding="utf-8"):
            imported = (line for line, module in imports_of(path) if module.split(".")[0] == "benchmarks")
            wrong += [f"{path}:{line}: a test of a script stands in tests/benchmarks" for line in imported]
    assert wrong == []


def test_within_a_room_a_package_imports_only_packages_below_it():
    wrong = []
    for path in MODULES:
        room, *inner = name_of(path).split(".")
        floors = INNER_FLOORS.get(room, [])
        height_of = {name: height for height, names in enumerate(reversed(floors), 1) for name in names}
        for line, module in imports_of(path):
            _, other_room, *other = [*module.split("."), "", ""][:4]
            if not inner or other_room != room or other[0] == inner[0]:
                continue
            here, there = height_of.get(inner[0], 0), height_of.get(other[0], 0)
            if there >= here and (here or there):
                wrong.append(f"{path}:{line}: {room}/{inner[0]} may not import {module}")
    assert wrong == []


def test_no_files_import_each_other_in_a_circle():
    """Imports for type checking count: a part that needs its owner's class is no part."""
    imports = {
        name: {module.removeprefix("daskfs.") for _, module in imports_of(path, typing_too=True)} & PATH_OF.keys()
        for name, path in PATH_OF.items()
    }
    while leaves := [name for name, needed in imports.items() if not needed & imports.keys()]:
        for name in leaves:
            del imports[name]
    assert not imports, f"these import each other: {sorted(imports)}"


@pytest.mark.parametrize(
    "system", [PACKAGE / "selectors" / name for name in sorted(SYSTEMS)], ids=lambda path: path.name
)
def test_a_system_is_entered_through_its_doors(system):
    """What others may import of a system, its package's docstring says."""
    text = ast.get_docstring(tree_of(system / "__init__.py")) or ""
    doors = {"selector"}
    for words in re.findall(r"`([\w.]+)`", text.partition("Open to others")[2]):
        door = words if f"selectors.{system.name}.{words}" in PATH_OF else words.rpartition(".")[0]
        assert f"selectors.{system.name}.{door}" in PATH_OF, f"{system.name}/__init__.py: there is no {words}"
        doors.add(door)
    home = f"daskfs.selectors.{system.name}."
    entered = set()
    for path in MODULES:
        if system in path.parents:
            continue
        for line, module in imports_of(path):
            if module.startswith(home) and module[7:] in PATH_OF:
                door = module.removeprefix(home)
                assert door in doors, f"{path}:{line}: {door} is not open to others; see {system.name}/__init__.py"
                entered.add(door)
    assert doors - {"selector"} <= entered, f"nobody enters {sorted(doors - entered - {'selector'})}"


def test_each_library_enters_through_its_door():
    wrong = []
    for path in MODULES:
        name = name_of(path)
        for line, module in imports_of(path):
            allowed = DOORS.get(module.split(".")[0], {""})
            if not any(door in ("", name) or name.startswith(f"{door}.") for door in allowed):
                wrong.append(f"{path}:{line}: {module} enters through {', '.join(sorted(allowed))} only")
    assert wrong == []


def test_files_stand_on_public_ground():
    """No private names of libraries, no internals of the compiler, nothing changed that others in the process use."""
    wrong = []
    for path in MODULES:
        found = not_public(path.read_text(encoding="utf-8"), name_of(path))
        wrong += [f"{path}:{line}: {what}" for line, what in found]
    assert wrong == []


def test_losses_are_asked_what_is_true_of_them():
    """Their names and codes are compared where their formulas are, and nowhere else."""
    codes = {name.upper() for name in LOSSES}
    wrong = []
    for path in MODULES:
        if name_of(path) in ("losses", "kernels.losses", "sources.synthetic"):  # the last has noise of like names
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare):
                parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
                names = [part.value for part in parts if isinstance(part, ast.Constant)]
                names += [part.id.lower() for part in parts if isinstance(part, ast.Name) and part.id in codes]
                if not LOSSES.keys().isdisjoint(map(str, names)):
                    wrong.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "import numba.core.types",
        "from numba.core import types",
        "import llvmlite.binding as llvm",
        "from sklearn.utils.validation import _num_samples",
        "from sklearn.utils._set_output import wrap",
        "import sklearn.utils._tags",
        "import numpy as np\nnp._core.multiarray",
        "def f():\n    import zarr\n    return zarr.Array._async_array",
        "from numba import config\nconfig.THREADING_LAYER = 'omp'",
        "import numba\nnumba.config.THREADING_LAYER = 'omp'",
        "import numpy as np\ndel np.float_",
        "import dask\nsetattr(dask, 'compute', None)",
        "import sys\nsys.modules['scipy'] = None",
        "from sys import modules\ndel modules['scipy']",
        "import gc\ngc.set_threshold(0)",
        "class A: pass\nA.__bases__ = ()",
    ],
)
def test_private_ground_is_seen(code):
    assert not_public(code, "store.header")


def test_private_attributes_that_are_read_are_our_own():
    """Of an object whose class the text does not tell, by its name: daskfs defines what it reads."""
    ours, read = {*DOCUMENTED}, []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    ours.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    ours.add(name)
                case ast.Attribute(attr=name) if is_private(name):
                    read.append((name, f"{path}:{node.lineno}: {ast.unparse(node)}"))
    assert [place for name, place in read if name not in ours] == []


def test_a_file_is_named_for_what_it_holds():
    assert not {path.name for path in MODULES} & {"utils.py", "core.py", "common.py", "helpers.py", "os.py"}


def test_a_room_has_no_code_in_its_doorway():
    for path in PACKAGE.rglob("*/__init__.py"):
        body = tree_of(path).body
        if name_of(path) in ("baselines", "feature_maps", "model_selection"):  # names that are fetched when first used
            continue
        assert all(isinstance(node, ast.Expr) for node in body), f"{path}: a docstring only"
        assert body, f"{path}: say in a docstring what the room is for"


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@cache
def modules_of_tasks() -> set[str]:
    """The modules of all functions that are sent to workers, and the matrices that they are sent with."""
    found = {"daskfs.store.feature_store", "daskfs.matrix.arrays"}
    for path in MODULES:
        tree = tree_of(path)
        home = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            place = (
                TASKS.get(node.func.attr)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                else None
            )
            if place is None or len(node.args) <= place or not isinstance(node.args[place], ast.Name):
                continue
            if node.func.attr == "map_blocks" and not any(keyword.arg == "shared" for keyword in node.keywords):
                continue  # of a Dask array, which runs where the user computes it
            name = node.args[place].id
            is_own = any(isinstance(part, ast.FunctionDef) and part.name == name for part in tree.body)
            module = f"daskfs.{name_of(path)}" if is_own else home.get(name)
            if module is not None and module.startswith("daskfs."):
                found.add(module)
    return found


def test_what_workers_run_is_found():
    assert {"daskfs.selectors.message.tasks", "daskfs.selectors.fgm.tasks"} <= modules_of_tasks()
    assert len(modules_of_tasks()) >= 8


def test_what_a_worker_imports_is_light():
    assert modules_after(f"import {', '.join(sorted(modules_of_tasks()))}") & HEAVY == set()


def test_processes_that_encode_columns_of_tables_do_without_numba():
    """Which would take a hundred MiB in each of them."""
    modules = ", ".join(f"daskfs.sources.{name}" for name in ("parts", "csv", "parquet", "dataframe"))
    assert modules_after(f"import {modules}") & {"numba"} == set()


def test_the_front_door_loads_nothing():
    assert modules_after("import daskfs; dir(daskfs)") & (HEAVY | {"numpy", "numba", "dask"}) == set()


SLOW_TO_LOAD = {"numba", "llvmlite", "zarr", "dask", "distributed", "matplotlib"}


def test_a_selectors_class_loads_no_kernels_and_no_dask():
    """It does load scikit-learn, whose base classes it has."""
    names = ("Message", "OnlineSubstitution", "AsyncOnlineSubstitution", "FGM", "Mission")
    assert modules_after(f"import daskfs; {'; '.join(f'daskfs.{name}' for name in names)}") & SLOW_TO_LOAD == set()


@pytest.mark.slow_cases("validate")
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_pipeline_is_checked_and_planned_without_kernels_and_dask(command):
    pipeline = PACKAGE.parent / "pipelines" / "message.yaml"
    statement = f"from daskfs.cli import app; app(['{command}', '{pipeline}'], standalone_mode=False)"
    assert modules_after(statement) & SLOW_TO_LOAD == set()


def test_every_public_name_can_be_fetched():
    import daskfs

    for name in daskfs.__all__:
        assert getattr(daskfs, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Mision'"):
        _ = daskfs.Mision


def test_type_checkers_find_the_public_names_where_they_are_fetched_from():
    import daskfs

    tree = tree_of(PACKAGE / "__init__.py")
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    shown = {alias.asname: f"{node.module}:{alias.name}" for node in block.body for alias in node.names}
    assert shown == daskfs._PLACE_OF


def test_every_baseline_can_be_fetched():
    import daskfs.baselines

    assert [getattr(daskfs.baselines, name).__name__ for name in daskfs.baselines.__all__] == daskfs.baselines.__all__
    with pytest.raises(AttributeError, match="no attribute 'Bolaso'"):
        _ = daskfs.baselines.Bolaso

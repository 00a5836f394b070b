"""The house: floors (a room imports only rooms below it), doors (each library enters through one room), and weight."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "daskfs"

FLOORS = [  # from the top down; see CONTRIBUTING.md, "Decisions", for where this differs from the first plan
    {"__main__"},
    {"cli"},
    {"__init__"},
    {"pipeline"},
    {"report"},
    {"baselines"},
    {"selectors"},
    {"feature_maps", "sources"},
    {"store"},
    {"matrix"},
    {"cluster", "kernels", "result", "metrics"},
    {"methods", "parameters"},
    {"losses"},
    {"documents", "files"},
    {"errors"},
]
FLOOR_OF = {room: height for height, rooms in enumerate(reversed(FLOORS)) for room in rooms}

DOORS = {  # library: the rooms or modules that may import it
    "numba": {"kernels"},
    "dask": {"cluster", "matrix", "sources.dataframe"},
    "distributed": {"cluster"},
    "zarr": {"store"},
    "numcodecs": {"store"},
    "pyarrow": {"sources", "result"},
    "typer": {"cli"},
    "rich": {"cli"},
    "yaml": {"documents"},
    "pydantic": {"documents", "pipeline", "sources"},
    "matplotlib": {"report"},
    "bokeh": {"report"},
    "sklearn": {"selectors", "baselines", "sources.sklearn_sets"},
}

LIGHT = [  # what a worker imports
    "daskfs.matrix.streaming",
    "daskfs.store.feature_store",
    "daskfs.sources.arrays",
    "daskfs.selectors.message.tasks",
    "daskfs.selectors.fgm.tasks",
    "daskfs.selectors.mission.tasks",
    "daskfs.selectors.shared.refit_on_block",
    "daskfs.selectors.asy_os.task",
    "daskfs.baselines.lasso.tasks",
    "daskfs.selectors.online_substitution.screen",
]
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

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """``selectors/message.py`` -> ``selectors.message``; ``store/__init__.py`` -> ``store``."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imports_of(path: Path) -> list[tuple[int, str]]:
    """Every module that a file imports, function-level imports too, but not those for type checking only."""
    found: list[tuple[int, str]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.orelse:
                visit(child)
            return
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise AssertionError(f"{path}:{node.lineno}: relative import; write the whole name")
            if node.module == "daskfs":
                found.extend((node.lineno, f"daskfs.{alias.name}") for alias in node.names)
            else:
                found.append((node.lineno, node.module or ""))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def room_imported(module: str) -> str | None:
    """The room of daskfs that ``import module`` enters; the front door for ``daskfs`` itself and its public names."""
    parts = module.split(".")
    if parts[0] != "daskfs":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in FLOOR_OF else "__init__"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_room_imports_only_rooms_below_it(path):
    room = name_of(path).split(".")[0]
    assert room in FLOOR_OF, f"{path.name} stands in no room: give it a floor here and in CONTRIBUTING.md"
    for line, module in imports_of(path):
        imported = room_imported(module)
        if imported is not None and imported != room and module != "daskfs.__version__":
            assert FLOOR_OF[imported] < FLOOR_OF[room], f"{path}:{line}: {room} may not import {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_each_library_enters_through_its_door(path):
    name = name_of(path)
    for line, module in imports_of(path):
        allowed = DOORS.get(module.split(".")[0])
        if allowed is not None:
            inside = any(name == door or name.startswith(f"{door}.") for door in allowed)
            assert inside, f"{path}:{line}: {module} enters through {', '.join(sorted(allowed))} only"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_file_is_named_for_what_it_holds(path):
    assert path.name not in {"utils.py", "core.py", "common.py", "helpers.py", "os.py"}


@pytest.mark.parametrize("room", [str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("*/__init__.py")])
def test_a_room_has_no_code_in_its_doorway(room):
    body = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8")).body
    if room in {"kernels", "baselines"}:  # warmup(), and names that contracts promise, fetched when first used
        return
    assert all(isinstance(node, ast.Expr) for node in body), f"{room}/__init__.py: a docstring only"
    assert body, f"{room}/__init__.py: say in a docstring what the room is for"


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", LIGHT)
def test_what_a_worker_imports_is_light(module):
    assert modules_after(f"import {module}") & HEAVY == set()


def test_the_front_door_loads_nothing():
    assert modules_after("import daskfs; dir(daskfs)") & (HEAVY | {"numpy", "numba", "dask"}) == set()


def test_every_public_name_can_be_fetched():
    import daskfs

    for name in daskfs.__all__:
        assert getattr(daskfs, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Mision'"):
        _ = daskfs.Mision


def test_every_baseline_can_be_fetched():
    import daskfs.baselines

    assert [getattr(daskfs.baselines, name).__name__ for name in daskfs.baselines.__all__] == daskfs.baselines.__all__
    with pytest.raises(AttributeError, match="no attribute 'Bolaso'"):
        _ = daskfs.baselines.Bolaso

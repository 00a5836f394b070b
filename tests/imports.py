"""What files import, read from their text."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from daskfs.kernels.sources import parsed

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "daskfs"
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """``selectors/message.py`` -> ``selectors.message``; ``store/__init__.py`` -> ``store``."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


PATH_OF = {name_of(path): path for path in MODULES}


@cache
def tree_of(path: Path) -> ast.Module:
    """The code of a file, read once."""
    return parsed(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path, *, typing_too: bool = False) -> list[tuple[int, str]]:
    """Every module that a file imports: function-level imports and import strings too, for type checking if asked."""
    found: list[tuple[int, str]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not typing_too:
            for child in node.orelse:
                visit(child)
            return
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise AssertionError(f"{path}:{node.lineno}: relative import; write the whole name")
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found.extend((node.lineno, name) for name in inner if node.module == "daskfs" or name[7:] in PATH_OF)
            if node.module != "daskfs":
                found.append((node.lineno, node.module or ""))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.extend((node.lineno, word.value) for word in node.args if isinstance(word, ast.Constant))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree_of(path))
    return found

"""What the tests catch: change daskfs in one place, run the tests that call that function, and see whether one fails.

    python3 .ci/mutants.py trace            run the default tests once; note which functions each of them calls
    python3 .ci/mutants.py trace -m ""      or all tests
    python3 .ci/mutants.py draw [N] [SEED]  draw N changes (200) over all rooms, by the lengths of rooms and files
    python3 .ci/mutants.py run [FOLDERS]    try them, in so many clones at a time (2); resumes
    python3 .ci/mutants.py again ID ... -- PYTEST_ARGUMENTS    try those that nothing caught with other tests
    python3 .ci/mutants.py table            what was caught, by room

The changes are cosmic-ray's. The Python is .venv-test's, 3.12 or newer, with ``pip install cosmic-ray``.
All is kept in mutants/: trace/, drawn.json, results.jsonl (the last line of a change holds), clones/.
"""

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE = ROOT / "mutants"
PYTHON = str(ROOT / ".venv-test" / "bin" / "python")
TRACING = Path(__file__).parent / "tracing"
FIRST_S, THEN_S = 20.0, 180.0
"""CPU seconds that the tests of a change may have taken: at first some of each file, then all, cheapest first."""
LONGEST_S = 1_800


def room_of(path):
    """``daskfs/store/x.py`` -> ``store``; files of the package itself are ``daskfs``."""
    parts = Path(path).parts
    return parts[1] if len(parts) > 2 else parts[0]


def trace(arguments):
    """Run tests with their functions traced."""
    shutil.rmtree(HERE / "trace", ignore_errors=True)
    environment = os.environ | {"PYTHONPATH": str(TRACING), "TRACE_TO": str(HERE / "trace")}
    subprocess.run(
        [PYTHON, "-m", "pytest", "-p", "tracing", "-n", "2", *arguments], cwd=ROOT, env=environment, check=True
    )


def draw(n=200, seed=0):
    """Draw changes: of each room by its lines (at least four), of a file by its lines, of a place one operator."""
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path

    operators = {name: cosmic_ray.plugins.get_operator(name) for name in cosmic_ray.plugins.operator_names()}
    operators = {
        name: made() for name, made in operators.items() if not made.arguments() and "RemoveDecorator" not in name
    }
    n_lines, rooms = {}, defaultdict(list)
    for path in sorted((ROOT / "daskfs").rglob("*.py")):
        relative = str(path.relative_to(ROOT))
        n_lines[relative] = len(path.read_text(encoding="utf-8").splitlines())
        rooms[room_of(relative)].append(relative)
    total = sum(n_lines.values())

    def places_of(relative):
        tree = get_ast_from_path(ROOT / relative)
        code = ast.parse((ROOT / relative).read_text(encoding="utf-8"))
        silent = types_in(code)
        found = defaultdict(list)
        for name, operator in operators.items():
            spans = (span for node in ast_nodes(tree) for span in operator.mutation_positions(node))
            for occurrence, (start, end) in enumerate(spans):
                if not any(low <= tuple(start) <= high for low, high in silent):
                    found[tuple(start), tuple(end)].append((name, occurrence))
        return [
            {"line": start[0], "function": function_at(code, start[0]), "operators": found[start, end]}
            for start, end in sorted(found)
        ]

    rng, places, drawn = random.Random(seed), {}, []
    for room, files in sorted(rooms.items()):
        for _ in range(max(4, round(n * sum(map(n_lines.get, files)) / total))):
            left = [path for path in files if places.setdefault(path, None) != []]
            path = rng.choices(left, [n_lines[path] for path in left])[0]
            if places[path] is None:
                places[path] = places_of(path)
            if places[path]:
                place = places[path].pop(rng.randrange(len(places[path])))
                name, occurrence = rng.choice(place.pop("operators"))
                change = {"id": len(drawn), "room": room, "file": path, "operator": name, "occurrence": occurrence}
                if changed(change, (ROOT / path).read_text(encoding="utf-8")) is not None:
                    drawn.append(change | place)
    rng.shuffle(drawn)  # so that those tried are a sample of all rooms, however far the trial comes
    HERE.mkdir(exist_ok=True)
    (HERE / "drawn.json").write_text(json.dumps(drawn, indent=1))
    print(f"{len(drawn)} changes of {len({change['file'] for change in drawn})} files")


def changed(change, code):
    """Return the code of a file after a change, None if the operator fails (as it does with ``except errors.X``)."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    operator = cosmic_ray.plugins.get_operator(change["operator"])()
    try:
        return mutate_code(code, operator, change["occurrence"])
    except AttributeError:
        return None


def types_in(code):
    """Return where types stand, which no test is to catch."""
    found = []
    for node in ast.walk(code):
        of_types = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            of_types.append(node)
        if isinstance(node, ast.Assign) and node.col_offset == 0 and isinstance(node.value, ast.BinOp):
            of_types += [node] if isinstance(node.value.op, ast.BitOr) else []
        found += [((t.lineno, t.col_offset), (t.end_lineno, t.end_col_offset)) for t in of_types if t is not None]
    return found


def function_at(node, line, prefix=""):
    """Return the qualified name of the function whose body holds a line, "" where the module's does."""
    best = ""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not child.lineno <= line <= child.end_lineno:
                continue
            inner = f"{prefix}{child.name}." + ("" if isinstance(child, ast.ClassDef) else "<locals>.")
            if not isinstance(child, ast.ClassDef) and line >= child.body[0].lineno:
                best = prefix + child.name
        best = function_at(child, line, inner) or best
    return best


class Traced:
    """The tests that call a function, and their costs."""

    def __init__(self):
        self.tests = defaultdict(set)
        self.seconds = {}
        for path in (HERE / "trace").glob("*.txt"):
            for line in path.read_text().splitlines():
                test, _, name = line.rpartition("\t")
                self.tests[name].add(test)
        for path in (HERE / "trace").glob("*.seconds"):
            for line in path.read_text().splitlines():
                test, _, cpu = line.rsplit("\t", 2)
                self.seconds[test] = max(float(cpu), 0.01)

    def rounds(self, change):
        """Yield the tests of a change: first some of every file that has any, the cheapest, then the others."""
        path = change["file"].removeprefix("daskfs/")
        functions = [f"{path}:{change['function']}"]
        if not change["function"]:
            functions = [name for name in self.tests if name.startswith(f"{path}:")]
        tests = set().union(*(self.tests[name] for name in functions)) & self.seconds.keys()
        for limit in (FIRST_S, THEN_S):
            of_file = defaultdict(list)
            for test in sorted(tests, key=self.seconds.get):
                of_file[test.partition("::")[0]].append(test)
            mirrored = sorted(of_file, key=lambda file: room_of(change["file"]) not in file)
            chosen, spent = [], 0.0
            while any(of_file.values()) and spent < limit:
                for file in mirrored:
                    if of_file[file] and spent < limit:
                        chosen.append(of_file[file].pop(0))
                        spent += self.seconds[chosen[-1]]
            if chosen:
                yield chosen
            tests -= set(chosen)


class Clone:
    """A copy of the project in which changes are tried."""

    def __init__(self, number):
        self.folder = HERE / "clones" / str(number) / "main"
        self.kernels = self.folder / "daskfs" / "kernels" / "__pycache__"
        if not self.folder.exists():
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.folder)], check=True)
        self.keep_kernels()

    def keep_kernels(self):
        """Take the compiled kernels of the project, not those of a change."""
        shutil.rmtree(self.kernels, ignore_errors=True)
        shutil.copytree(ROOT / "daskfs" / "kernels" / "__pycache__", self.kernels)

    def attempt(self, change, rounds):
        """Return what became of a change."""
        path = self.folder / change["file"]
        before = path.read_text(encoding="utf-8")
        after = changed(change, before)
        began, n_tests = time.time(), change.get("n_tests", 0)
        outcome, by = change.get("outcome", "not reached"), ""
        path.write_text(after, encoding="utf-8")
        try:
            for arguments in rounds:
                n_tests += len(arguments)
                outcome, by = self._tested(arguments)
                if outcome != "survived":
                    break
        finally:
            path.write_text(before, encoding="utf-8")
            self.keep_kernels()
        seconds, n_rounds = round(time.time() - began), change.get("n_rounds", 0) + 1
        return {**change, "outcome": outcome, "by": by, "n_tests": n_tests, "seconds": seconds, "n_rounds": n_rounds}

    def _tested(self, arguments):
        asked = self.folder.parent / "arguments.txt"
        asked.write_text("\n".join(arguments))
        command = [PYTHON, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "", f"@{asked}"]
        command += ["--timeout=300", "--timeout-method=thread"]  # which ends a kernel, too, that goes on for ever
        environment = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        with (self.folder.parent / "log.txt").open("w+") as log:
            try:
                done = subprocess.run(
                    command,
                    cwd=self.folder,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    timeout=LONGEST_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return "caught", "took too long"
            log.seek(0)
            said = [line.strip() for line in log if line.startswith(("FAILED ", "ERROR ", "E  "))]
        if done.returncode == 0:
            return "survived", ""
        by = next((line for line in said if line.startswith(("FAILED", "ERROR"))), said[0] if said else "")
        # 4 without a file's error: a test that is not there, perhaps since the trace, which says nothing of the change
        is_caught = done.returncode in (1, 2, 3) or done.returncode < 0 or bool(by)
        return ("caught" if is_caught else f"pytest ended with {done.returncode}"), by[:200]


def results():
    """Return the last outcome of each change that was tried."""
    path = HERE / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {result["id"]: result for result in map(json.loads, lines)}


def is_left(result, number):
    """Return whether a round has yet to try a change."""
    if result is None:
        return number == 0
    return number == 1 and result["outcome"] == "survived" and result["n_rounds"] == 1


def attempt_all(changes, rounds_of, n_clones=2):
    """Try changes in several clones at a time, and write each outcome at once."""
    left, lock = list(changes), threading.Lock()

    def work(number):
        clone = Clone(number)
        while True:
            with lock:
                if not left:
                    return
                change = left.pop(0)
            result = clone.attempt(change, rounds_of(change))
            with lock, (HERE / "results.jsonl").open("a") as out:
                out.write(json.dumps(result) + "\n")
                print(result["id"], result["outcome"], change["file"], change["line"], result["by"][:120], flush=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(n_clones)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def table():
    """Print what was caught, by room, and what was not."""
    found = results().values()
    count = Counter((result["room"], result["outcome"]) for result in found)
    print("| room | changes | caught |\n|---|---|---|")
    for room in sorted({result["room"] for result in found}):
        n = sum(count[r, outcome] for r, outcome in count if r == room)
        print(f"| {room} | {n} | {count[room, 'caught']} |")
    print(f"| all | {len(found)} | {sum(result['outcome'] == 'caught' for result in found)} |\n")
    for result in found:
        if result["outcome"] != "caught":
            print("- {id}: {file}:{line} {operator} ({occurrence}): {outcome}".format(**result))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["trace", *arguments]:
            trace(arguments)
        case ["draw", *numbers]:
            draw(*map(int, numbers))
        case ["run", *n_clones]:
            traced, drawn = Traced(), json.loads((HERE / "drawn.json").read_text())
            for number in range(2):  # the second round tries what survived the first
                tried = results()
                left = [tried.get(c["id"], c) for c in drawn if is_left(tried.get(c["id"]), number)]
                attempt_all(left, lambda change, n=number: list(traced.rounds(change))[n : n + 1], *map(int, n_clones))
        case ["again", *arguments] if "--" in arguments:
            at = arguments.index("--")
            named = {int(number) for number in arguments[:at]}
            again = [r for r in results().values() if r["id"] in named or (not named and r["outcome"] != "caught")]
            attempt_all(again, lambda _: [arguments[at + 1 :]])
        case ["table"]:
            table()
        case _:
            sys.exit(__doc__)

import inspect
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import dask
import distributed  # noqa: F401  before its configuration is changed
import jsonschema
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import daskfs
from daskfs import __version__
from daskfs.cli import _without_swallowed_interrupts, app
from daskfs.pipeline.schemas import json_schema
from daskfs.watching.terminal import Lines
from tests.integration.workshop import PROGRESS

COMMANDS = ["run", "plan", "validate", "ingest", "info", "verify", "select", "report", "schema", "warmup"]
PIPELINE = """
version: 1
name: quick
source: {kind: sklearn, name: diabetes}
select: {method: message, n_subsets: 3}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in an empty folder; return its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="daskfs")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.stdout, done.stderr

    return run


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "quick.yaml"
    path.write_text(PIPELINE)
    return path


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_help_names_every_command_and_loads_none_of_the_heavy_libraries():
    code = "import sys; from daskfs.cli import app; app(['--help'], prog_name='daskfs', standalone_mode=False)"
    heavy = "numpy", "numba", "dask", "pandas", "pydantic", "zarr", "sklearn", "yaml", "rich"
    code += f"; print('LOADED', *(set(sys.modules) & set({heavy!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text, _, loaded = done.stdout.partition("LOADED")
    assert loaded.split() == []
    for command in COMMANDS:
        assert f"\n  {command} " in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run, command):
    code, text, _ = run(command, "--help")
    assert code == 0
    assert text.startswith(f"Usage: daskfs {command}")


def test_python_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "daskfs", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"daskfs {__version__}\n"


def test_a_wrong_command_gets_the_nearest_right_one(run):
    code, _, errors = run("rnu")
    assert code == 2
    assert "run" in errors


@pytest.mark.slow
def test_run_prints_the_selection_and_where_the_report_is(run, pipeline, tmp_path):
    code, text, errors = run("run", pipeline)
    assert code == 0
    assert "of 10 features selected from 353 samples" in text
    assert "bmi" in text
    assert text.endswith(f"report: {tmp_path / 'runs' / 'quick' / 'report.html'}\n")
    assert all(PROGRESS.fullmatch(line) for line in errors.splitlines()), "a line for each step that took a second"
    assert "\x1b" not in text + errors, "no bars where nobody looks"


def test_plan_says_the_cost_and_touches_nothing(run, pipeline, tmp_path):
    code, text, _ = run("plan", pipeline)
    assert code == 0
    assert "442 samples x 10 features" in text
    code, text, _ = run("plan", pipeline, "--json")
    plan = json.loads(text)
    assert plan["data"]["n_train"] == 353
    assert plan["promised_nbytes"]["client"] <= plan["limits_nbytes"]["client"]
    assert left_in(tmp_path) == ["quick.yaml"]


def test_validate_touches_nothing(run, pipeline, tmp_path):
    assert run("validate", pipeline) == (0, f"{pipeline}: valid\n", "")
    assert left_in(tmp_path) == ["quick.yaml"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("selct.n_subsets=3", "quick.yaml: selct: unknown key (did you mean 'select'?); known keys: "),
        ("select.n_subsets=three", "quick.yaml: select.n_subsets: expected a valid integer, found 'three'"),
        ("source.name=diabtes", "diabetes"),
        ("select.max_features=11", "requests up to 11 features, but there are 10; request at most 10"),
        ("cluster.memory_limit=10MiB", "but the memory limit is 10.0 MiB; allow at least"),
        ("cluster.kind=kubernetes", "kind: address"),
        ("select.n_subsets=300", "n_subsets"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_an_error_of_the_users_is_one_line_with_its_topic_below_and_leaves_nothing(
    run, pipeline, tmp_path, command, override, message
):
    code, text, errors = run(command, pipeline, "--set", override)
    assert code == 2
    assert text == ""
    said, topic = errors.splitlines()
    assert message in said
    assert topic.startswith("more: daskfs explain ")
    assert left_in(tmp_path) == ["quick.yaml"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n", "expected a mapping of keys to values, found a list"),
        (PIPELINE + "name: again\n", ":6:1: not valid YAML: duplicate key 'name' (first on line 3)"),
        (PIPELINE + "x: !!python/object/apply:os.mkdir [gone]\n", "tags are never executed"),
        (PIPELINE.replace("{kind: sklearn, name: diabetes}", "[1, 2"), "not valid YAML"),
        ("", "found an empty file"),
    ],
)
def test_a_file_that_is_no_pipeline_is_refused_with_its_place(run, tmp_path, content, message):
    (tmp_path / "bad.yaml").write_text(content)
    for command in ("validate", "plan", "run"):
        code, _, errors = run(command, "bad.yaml")
        assert code == 2
        assert "bad.yaml" in errors
        assert message in errors
    assert left_in(tmp_path) == ["bad.yaml"]


def test_several_faults_are_one_line_each(run, pipeline):
    code, _, errors = run("validate", pipeline, "--set", "select.gama=1", "--set", "split.test=x", "--set", "nam=3")
    assert code == 2
    *lines, topic = errors.splitlines()
    assert len(lines) == 3
    assert topic == "more: daskfs explain yaml-files"


def test_a_missing_file_is_named(run):
    assert run("run", "nowhere.yaml") == (
        2,
        "",
        "nowhere.yaml: no such file; check the path\nmore: daskfs explain yaml-files\n",
    )


def test_a_finished_run_is_kept_unless_forced(run, pipeline, tmp_path):
    assert run("run", pipeline)[0] == 0
    code, _, errors = run("run", pipeline)
    assert code == 2
    assert errors == f"{tmp_path / 'runs' / 'quick'}: a finished run already exists at this path; " + (
        "choose another output, or add --force to replace it\nmore: daskfs explain run-folders\n"
    )
    assert run("run", pipeline, "--force")[0] == 0
    code, _, errors = run("run", pipeline, "--resume", "runs/quick")
    assert code == 2
    assert "nothing to resume: the run is finished" in errors


def test_a_scheduler_that_does_not_answer_is_named(run, pipeline, tmp_path):
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        code, _, errors = run("run", pipeline, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "tcp://127.0.0.1:9: no scheduler answers" in errors
    assert "compiling" not in errors
    assert left_in(tmp_path / "runs") == [], "it is asked for before anything is made"


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    lines = [";".join(map(str, [*row, row[0] - row[2]])) for row in X.round(4).tolist()]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a;b;c;y", *lines]) + "\n")
    return path


@pytest.mark.slow
def test_ingest_with_workers_makes_the_same_files(run, csv, tmp_path):
    for store, workers in (("one.zarr", []), ("two.zarr", ["--workers", "2"])):
        code, _, errors = run("ingest", csv, store, "--target", "y", "--delimiter", ";", *workers)
        assert code == 0, errors
    made = [
        {
            path.relative_to(tmp_path / store): path.read_bytes()
            for path in (tmp_path / store).rglob("*")
            if path.is_file()
        }
        for store in ("one.zarr", "two.zarr")
    ]
    assert made[0]
    assert made[0] == made[1]


def test_ingest_is_told_the_kind_of_a_file_whose_name_does_not_say_it(run, tmp_path):
    (tmp_path / "train").write_text("1 1:2 7:3\n0 2:1\n1 3:4\n")
    code, text, errors = run("ingest", "train", "t.zarr", "--kind", "libsvm")
    assert code == 0, errors
    assert text.startswith("t.zarr: 3 samples x 7 features, float32\n")
    code, _, errors = run("ingest", "train", "u.zarr", "--kind", "libsvn")
    assert code == 2
    assert "unknown kind of source 'libsvn' (did you mean 'libsvm'?)" in errors.replace("\n", " ")
    assert left_in(tmp_path) == ["t.zarr", "train"]


@pytest.mark.slow
def test_ingest_info_verify_and_select_work_on_a_table(run, csv, tmp_path):
    code, text, errors = run("ingest", csv, "t.zarr", "--target", "y", "--delimiter", ";", "--dtype", "float64")
    assert code == 0, errors
    assert text.startswith("t.zarr: 200 samples x 3 features, float64\n")
    code, text, _ = run("info", "t.zarr", "--json")
    assert code == 0
    assert json.loads(text)["shape"] == [200, 3]
    code, text, _ = run("info", "t.zarr")
    assert "n_samples" in text
    code, text, _ = run("verify", "t.zarr")
    assert (code, text) == (0, "t.zarr: whole\n")
    code, text, errors = run("select", "t.zarr", "--method", "message", "--n-subsets", 1, "--output", "out")
    assert code == 0, errors
    assert "2 of 3 features selected from 160 samples" in text
    assert left_in(tmp_path) == ["out", "t.zarr", "table.csv"]
    jsonschema.validate(json.loads((tmp_path / "out" / "result.json").read_text()), json_schema("result"))


@pytest.mark.slow
def test_select_has_a_folder_of_its_own_and_may_test_on_nothing(run, tmp_path):
    run("ingest", "sklearn:diabetes", "d.zarr")
    code, text, errors = run("select", "d.zarr", "--test", 0, "--criterion", "bic")
    assert code == 0, errors
    assert "from 442 samples" in text
    assert "on the test rows" not in text
    assert left_in(tmp_path / "runs") == ["d-message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["select", "nowhere.zarr"], "nowhere.zarr"),
        (["select", "d.zarr", "--method", "mesage"], "found 'mesage' (did you mean 'message'?)"),
        (["select", "d.zarr", "--n-features", "11"], "there are 10"),
        (["select", "d.zarr", "--criterion", "aic"], "expected 'vote', 'bic', 'ric' or 'ebic', found 'aic'"),
        (["select", "d.zarr", "--memory-limit", "much"], "expected a size, found 'much'"),
        (["select", "d.zarr", "--gamma", "2"], "gamma"),
        (["info", "nowhere.zarr"], "nowhere.zarr"),
        (["verify", "quick.yaml"], "quick.yaml"),
        (["report", "nowhere"], "nowhere: no such folder"),
        (["schema", "stor"], "found 'stor' (did you mean 'store'?)"),
        (["ingest", "nowhere.csv", "n.zarr"], "nowhere.csv"),
        (["ingest", "sklearn:diabetis", "n.zarr"], "did you mean 'diabetes'?"),
        (["ingest", "sklearn:diabetes", "n.zarr", "--dtype", "float33"], "float33"),
        (["ingest", "sklearn:diabetes", "n.zarr", "--codec", "zip"], "zip"),
        (["ingest", "sklearn:diabetes", "n.zarr", "--memory-limit", "much"], "expected a size, found 'much'"),
        (["ingest", "sklearn:diabetes", "d.zarr", "--dtype", "float64"], "a store made from other settings"),
    ],
)
def test_wrong_arguments_end_with_code_2_and_leave_nothing(run, pipeline, tmp_path, arguments, message):
    run("ingest", "sklearn:diabetes", "d.zarr")
    code, text, errors = run(*arguments)
    assert code == 2
    assert text == ""
    assert message in errors
    assert left_in(tmp_path) == ["d.zarr", "quick.yaml"]


def test_verify_names_what_is_damaged(run, tmp_path):
    run("ingest", "sklearn:diabetes", "d.zarr")
    chunk = next(path for path in (tmp_path / "d.zarr" / "X" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-5])
    code, _, errors = run("verify", "d.zarr")
    assert code == 2
    assert "X" in errors
    assert "d.zarr: 1 damaged part; remove it and ingest the source again\n" in errors
    assert errors.endswith("more: daskfs explain damaged-stores\n")


@pytest.mark.slow
def test_report_compares_runs(run, tmp_path):
    run("ingest", "sklearn:diabetes", "d.zarr")
    for k in (1, 3):
        assert run("select", "d.zarr", "--n-subsets", k, "--output", f"r{k}")[0] == 0
    code, text, _ = run("report", "r1", "r3", "--output", "both.html")
    assert (code, text) == (0, "both.html\n")
    assert "Side by side" in (tmp_path / "both.html").read_text()
    code, text, _ = run("report", "r1")
    assert text == f"{tmp_path / 'r1' / 'report.html'}\n"


@pytest.mark.parametrize("name", ["pipeline", "store", "result"])
def test_schema_prints_a_json_schema(run, name):
    code, text, _ = run("schema", name)
    assert code == 0
    assert run("schema", name, "--json")[1] == text
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_an_interrupt_is_exit_code_130(run, pipeline, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("daskfs.pipeline.run.run_pipeline", interrupted)
    assert run("run", pipeline) == (130, "", "interrupted\n")


@pytest.mark.slow
def test_a_fault_of_ours_keeps_its_traceback_and_exit_code_1(pipeline):
    code = (
        "import daskfs.pipeline.run as r; r.run_pipeline = lambda *a, **k: 1 / 0; from daskfs.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, "run", str(pipeline)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


KEYS = {
    "plan quick.yaml": {"data", "steps", "promised_nbytes", "limits_nbytes"},
    "validate quick.yaml": {"pipeline", "is_valid"},
    "run quick.yaml --force": {"run", "report", "model", "selections"},
    "init table.csv --output drafts": {"pipeline", "schema", "target", "columns"},
    "init quickstart --output drafts": {"pipeline", "schemas"},
    "ingest table.csv t.zarr --target y --delimiter ;": {"store", "n_samples", "n_features", "dtype", "notes"},
    "info d.zarr": {"shape", "dtype", "target_names", "digest", "notes"},
    "export-store d.zarr cells.zarr": {"path", "n_samples", "n_features"},
    "verify d.zarr": {"store", "is_whole", "is_sealed"},
    "select d.zarr --n-subsets 1 --output other": {"run", "report", "model", "selections"},
    "apply done table.csv -o out.csv": {"output", "n_rows", "metrics"},
    "export done": {"as", "file", "names"},
    "export done --as sql -o q.sql": {"as", "file", "text"},
    "watch done": {"run", "kind", "message", "exit_code", "status"},
    "explain fgm": {"name", "class", "summary", "algorithm", "parameters"},
    "explain streams": {"name", "title", "text"},
    "report done": {"results", "jaccard"},
    "warmup --method iht": {"methods", "dtype"},
}


@pytest.fixture
def workplace(run, pipeline, csv):
    """A folder with a table, a store and a run."""
    assert run("ingest", "sklearn:diabetes", "d.zarr")[0] == 0
    code, _, errors = run("select", csv, "--target", "y", "--n-subsets", 1, "--output", "done")
    assert code == 0, errors
    return run


@pytest.mark.slow
def test_each_command_prints_one_document_with_the_keys_that_programs_ask_for(workplace):
    for command, keys in KEYS.items():
        code, text, errors = workplace(*command.split(), "--json")
        assert code == 0, errors
        assert {*json.loads(text)} >= keys, command
    assert {*json.loads(workplace("methods", "--json")[1])[0]} == {"name", "class", "summary"}
    document = json.loads(workplace("run", "quick.yaml", "--force", "--json")[1])
    (selection,) = document["selections"].values()
    assert {*selection} == {"method", "n_samples", "n_features", "selected", "metrics", "notes", "result"}
    assert "bmi" in selection["selected"]
    assert json.loads(Path(selection["result"]).read_text())["n_samples"] == 353


def test_the_page_of_the_command_line_names_these_keys():
    page = (Path(__file__).parents[1] / "docs" / "command_line.md").read_text(encoding="utf-8")
    rows = {match[1]: match[2] for match in re.finditer(r"^\| (`[a-z`, -]+`) \| (.*) \|$", page, re.MULTILINE)}
    for command, keys in KEYS.items():
        (row,) = (text for names, text in rows.items() if f"`{command.split()[0]}`" in names)
        assert keys <= {*re.findall(r"`(\w+)`", row)}, command


def test_every_command_that_has_something_to_tell_tells_it_in_json():
    commands = {one.callback.__name__.replace("_", "-"): one.callback for one in app.registered_commands}
    assert commands.keys() - {command.split()[0] for command in KEYS} == {"methods", "schema"}
    for callback in commands.values():
        assert "as_json" in inspect.signature(callback).parameters


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["validate", "nowhere.yaml"], "ConfigError", "nowhere.yaml: no such file"),
        (["explain", "mision"], "ConfigError", "did you mean 'mission'?"),
        (["ingest", "table.csv", "n.zarr", "--dtype", "floar32"], "BadParameter", "did you mean 'float32'?"),
        (["info", "--resme"], "NoSuchOption", "--resme"),
        (["apply", "done", "table.csv"], "ConfigError", "name a file with -o"),
    ],
)
def test_errors_are_documents_too(run, csv, arguments, kind, message):
    code, text, errors = run(*arguments, "--json")
    assert code == 2
    error = json.loads(text)["error"]
    assert {*error} == {"kind", "messages", "topic", "notes", "exit_code"}
    assert (error["kind"], error["exit_code"]) == (kind, 2)
    assert message in error["messages"][0]
    assert message in errors


def test_a_document_has_a_message_for_each_fault_of_a_file(run, pipeline):
    code, text, _ = run("validate", pipeline, "--set", "select.gama=1", "--set", "split.test=x", "--json")
    assert code == 2
    error = json.loads(text)["error"]
    assert len(error["messages"]) == 2
    for message, key in zip(error["messages"], ("split: test", "select.gama"), strict=True):
        assert f": {key}: " in message
    assert error["topic"] == "yaml-files"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["ingst"], "ingest"),
        (["run", "quick.yaml", "--resme", "x"], "--resume"),
        (["explain", "onlin_substitution"], "online_substitution"),
        (["explain", "yaml-file"], "yaml-files"),
        (["validate", "quick.yaml", "--set", "selct.method=fgm"], "select"),
        (["validate", "quick.yaml", "--set", "select.method=mesage"], "message"),
        (["validate", "quick.yaml", "--set", "select.loss=squard"], "squared"),
        (["validate", "quick.yaml", "--set", "evaluate.metrics=[acuracy]"], "accuracy"),
        (["validate", "quick.yaml", "--set", "source.kind=sklern"], "sklearn"),
        (["warmup", "--method", "fgn"], "fgm"),
        (["warmup", "--method", "fgm", "--loss", "squard"], "squared"),
        (["warmup", "--method", "fgm", "--dtype", "float23"], "float32"),
        (["export", "done", "--as", "sklern"], "sklearn"),
        (["schema", "pipline"], "pipeline"),
        (["init", "quikstart"], "quickstart"),
        (["init", "table.csv", "--target", "yy"], "y"),
        (["ingest", "table.csv", "t.zarr", "--kind", "cvs"], "csv"),
        (["ingest", "table.csv", "t.zarr", "--target", "yy", "--delimiter", ";"], "y"),
    ],
)
def test_every_misspelt_word_gets_the_nearest_right_one(run, pipeline, csv, arguments, meant):
    code, text, errors = run(*arguments)
    assert (code, text) == (2, "")
    assert re.search(rf"[Dd]id you mean '{meant}'|Possible options: {meant}", errors), errors


def test_init_takes_a_word_that_is_no_pipeline_for_a_file(run):
    code, text, errors = run("init", "zzyzx")
    assert (code, text) == (2, "")
    assert "zzyzx" in errors
    assert "Did you mean" not in errors


def test_select_says_that_a_file_is_missing(run, csv):
    code, text, errors = run("select", "tabel.csv", "--target", "y", "--method", "fgm")
    assert (code, text) == (2, "")
    assert "tabel.csv: no such file" in errors
    assert "table.csv" in errors


@pytest.mark.slow
def test_quiet_commands_say_nothing_that_was_not_asked_for(workplace, monkeypatch):
    monkeypatch.setattr(Lines.__init__, "__defaults__", (-1.0,))  # every step is worth a line
    assert workplace("run", "quick.yaml", "--force")[2] != ""
    for command in ("run quick.yaml --force", "verify d.zarr", "apply done table.csv -o out.csv --force"):
        code, text, errors = workplace(*command.split(), "--quiet")
        assert (code, errors) == (0, "")
        assert "next:" not in text


def test_force_makes_a_store_anew_and_keeps_the_old_one_until_then(run, csv, tmp_path):
    made = ["ingest", csv, "t.zarr", "--delimiter", ";", "--target"]
    assert run(*made, "y")[0] == 0
    code, _, errors = run(*made, "a")
    assert code == 2
    assert "choose another name, or replace it (--force" in errors
    assert run(*made, "nothing", "--force")[0] == 2
    csv.write_text("a;b;c;y\n1;2;3;oops\n")
    assert run(*made, "y", "--force")[0] == 2
    assert daskfs.open_store("t.zarr").shape == (200, 3)
    csv.write_text("a;b;y\n1;2;3\n4;5;7\n")
    assert run(*made, "y", "--force")[0] == 0
    assert daskfs.open_store("t.zarr").shape == (2, 2)
    assert left_in(tmp_path) == ["t.zarr", "table.csv"]


def test_force_replaces_what_is_a_store_and_nothing_else(run, csv, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    code, _, errors = run("ingest", csv, "mine", "--target", "y", "--delimiter", ";", "--force")
    assert code == 2
    assert "something else already exists at this path" in errors
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.slow
def test_a_run_that_is_forced_makes_the_store_of_another_source_anew(run, pipeline, csv, tmp_path):
    assert run("run", pipeline, "--set", "store.dtype=float64")[0] == 0
    code, _, errors = run("run", pipeline, "--set", "output=again")
    assert code == 2
    assert "a store made from other settings" in errors
    assert daskfs.open_store(tmp_path / "runs" / "quick.zarr").dtype == "float64"
    code, _, errors = run("run", pipeline, "--force", "--set", "select.max_features=99")
    assert code == 2
    assert daskfs.open_store(tmp_path / "runs" / "quick.zarr").dtype == "float64", "what failed changed nothing"
    assert run("run", pipeline, "--force")[0] == 0
    assert daskfs.open_store(tmp_path / "runs" / "quick.zarr").dtype == "float32"
    assert left_in(tmp_path / "runs") == ["quick", "quick.zarr"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["exp"], {"export", "export-store", "explain"}),
        (["explain", "fg"], {"fgm"}),
        (["explain", "yaml"], {"yaml-files"}),
        (["select", "--method", "mis"], {"mission"}),
        (["ingest", "train", "--kind", "lib"], {"libsvm"}),
        (["run", "--res"], {"--resume"}),
        (["schema", "pipe"], {"pipeline"}),
    ],
)
def test_shells_complete_commands_options_and_names(words, expected):
    asked = {"_DASKFS_COMPLETE": "complete_bash", "COMP_WORDS": shlex.join(["daskfs", *words])}
    done = CliRunner().invoke(app, [], prog_name="daskfs", env=asked | {"COMP_CWORD": str(len(words))})
    assert {*done.stdout.split()} == expected


@pytest.mark.slow
def test_select_takes_any_parameter_of_the_method(run, tmp_path):
    run("ingest", "sklearn:diabetes", "d.zarr")
    assert run("select", "d.zarr", "--set", "criterion=bic", "--set", "n_subsets=3", "--output", "out")[0] == 0
    parameters = json.loads((tmp_path / "out" / "result.json").read_text())["parameters"]
    assert (parameters["criterion"], parameters["n_subsets"]) == ("bic", 3)
    assert "did you mean 'criterion'" in run("select", "d.zarr", "--set", "criterio=bic")[2]


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 4)), columns=["age", "income", "rooms", "debt"])
    frame["bought"] = frame["age"] * frame["income"] > 0.0
    frame.to_parquet(tmp_path / "people.parquet")
    daskfs.ingest(tmp_path / "people.parquet", tmp_path / "people.zarr", target="bought")
    return tmp_path


@pytest.mark.slow
def test_select_takes_a_feature_map_and_shows_what_features_are_made_of(run, people):
    select = ["select", people / "people.zarr", "--method", "fgm", "--n-features", "2", "--output", people / "run"]
    code, shown, said = run(*select, "--map", "{map: pairs, between: [age, [income, debt]]}")
    assert code == 0, said
    assert "2 of 14 features selected" in shown
    (line,) = (line for line in shown.splitlines() if "age * income" in line)
    assert re.search(r"age \([\d.e-]+, rank \d\), income \([\d.e-]+, rank \d\)", line)
    assert "parent_1,parent_1_score,parent_1_rank" in (people / "run" / "selected.csv").read_text()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("pears", "did you mean 'pairs'?"),
        ("{map: pairs, betwen: [age, income]}", "features.betwen: unknown key (did you mean 'between'?)"),
        ("{map: pairs, between: [agee, income]}", "there is no column 'agee' (did you mean 'age'?)"),
        ("{map: pairs, between: [age, income, debt]}", "between: expected a list of two"),
        ("{map: pairs, within: [[age, 4]]}", "expected numbers of columns from 0 to 3, found 4"),
        ("{map: pairs, hierarchy: week}", "did you mean 'weak'?"),
        ("{map: pairs, gamma: -1}", "features.gamma: expected greater than 0, found -1"),
        ("null", "found 'None'"),
        ("[a", "--map:1:3: not valid YAML"),
    ],
)
def test_a_feature_map_that_cannot_be_meant_is_refused_with_the_nearest_right_word(run, people, asked, message):
    code, _, said = run("select", people / "people.zarr", "--method", "fgm", "--map", asked, "--output", people / "run")
    assert code == 2
    assert message in said
    assert not (people / "run").exists()


def test_a_method_that_takes_no_feature_map_says_so(run, people):
    code, _, said = run("select", people / "people.zarr", "--map", "pairs", "--output", people / "run")
    assert code == 2
    assert "message has no parameter feature_map" in said


def test_an_interrupt_that_a_destructor_swallows_is_not_shown_and_other_errors_are(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    with _without_swallowed_interrupts():
        for kind in (KeyboardInterrupt, ValueError):
            sys.unraisablehook(SimpleNamespace(exc_type=kind))
    assert [one.exc_type for one in shown] == [ValueError]
    sys.unraisablehook(SimpleNamespace(exc_type=KeyboardInterrupt))
    assert len(shown) == 2

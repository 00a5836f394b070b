"""Every bad source, schema, pipeline and plan on the command line: exit code 2, place and remedy, nothing left."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.integration.workshop import refused, table


def cell(line, column, value):
    """The table with another value on a line of the file."""

    def change(rows):
        rows[line - 1][column] = value

    return table(change=change)


def column(number, value):
    """The table with one value in every row of a column."""

    def change(rows):
        for row in rows[1:]:
            row[number] = value

    return table(change=change)


def schema(*, format=None, other_columns="error", **columns):
    """A schema of the table, with some columns described otherwise."""
    known = {"a": {}, "b": {}, "c": {}, "y": {"role": "target"}}
    document = {"version": 1, "columns": known | columns, "other_columns": other_columns}
    return document if format is None else document | {"format": format}


GOOD = table()
CSV, SCHEMA, PARQUET = "table.csv", "schema.yaml", "table.parquet"
BY_SCHEMA = {"schema": SCHEMA, "target": None}

BAD_HEADERS = {  # seen without reading the rows: the files, the source's options, what the message says
    "missing": ({}, {}, ["table.csv: no such file", "check the path"]),
    "misspelt": ({"tabel.csv": GOOD}, {}, ["no such file", "did you mean 'tabel.csv'?"]),
    "folder missing": ({}, {"path": "no/t.csv"}, ["no/t.csv: no such file", "does not exist either"]),
    "empty": ({CSV: ""}, {}, ["table.csv: expected data, found an empty file", "check how"]),
    "blank": ({CSV: "\n\n"}, {}, ["table.csv: expected a header and rows, found only blank lines", "check how"]),
    "header only": ({CSV: "a,b,c,y\n"}, {}, ["table.csv: expected rows, found only a header", "check how"]),
    "folder without tables": ({"t/readme": "x"}, {"path": "t"}, ["t: no file in it ends in .csv", "check the path"]),
    "empty pattern": ({}, {"path": "t-*.csv"}, ["t-*.csv: no file matches", "check the path and the pattern"]),
    "cut short": (
        {"t.csv.gz": gzip.compress(GOOD.encode())[:-200]},
        {"path": "t.csv.gz"},
        ["t.csv.gz: expected a complete .gz file", "end in the middle", "copy or download the file again"],
    ),
    "not compressed": ({"t.csv.gz": GOOD}, {"path": "t.csv.gz"}, ["t.csv.gz: expected a complete .gz", "download"]),
    "name not UTF-8": ({CSV: GOOD.replace("a", "\xe9", 1).encode("latin-1")}, {}, ["table.csv:1: ", "0xe9", "latin-1"]),
    "UTF-16": ({CSV: GOOD.encode("utf-16")}, {}, ["table.csv:1: ", "utf-16", "set format.encoding"]),
    "zeros": ({CSV: bytes(999)}, {}, ["table.csv:1: expected text, found zero bytes", "check that it is a CSV file"]),
    "semicolons": ({CSV: GOOD.replace(",", ";")}, {}, ["table.csv:1: ", "found ';'", "set the delimiter to ';'"]),
    "lacks a column": ({CSV: GOOD, SCHEMA: schema(d={})}, BY_SCHEMA, ["table.csv:1: ", "lacks column 'd'", "'a', 'b'"]),
    "column not named": (
        {CSV: GOOD.replace("c", "e", 1), SCHEMA: schema(c={"required": False})},
        BY_SCHEMA,
        ["table.csv: ", "a column 'e' that the schema does not name", "other_columns: ignore"],
    ),
    "two of a name": ({CSV: GOOD.replace("c", "a", 1)}, {}, ["table.csv:1: ", "'a' (columns 1 and 3)", "rename"]),
    "no such target": ({CSV: GOOD}, {"target": "z"}, ["table.csv:1: ", "lacks column 'z'", "'a', 'b', 'c', 'y'"]),
    "no target": ({CSV: GOOD}, {"target": None}, ["table.csv: no target was given", "role: target"]),
    "no such weight": ({CSV: GOOD}, {"weight": "w"}, ["table.csv: the weight 'w' is not a column", "'a', 'b'"]),
    "no feature": ({CSV: "y\n1\n2\n"}, {}, ["table.csv: no column can be used as a feature", "check the roles"]),
    "schema missing": ({CSV: GOOD}, BY_SCHEMA, ["schema.yaml: no such file", "check the path"]),
    "schema a list": ({CSV: GOOD, SCHEMA: "- a\n"}, BY_SCHEMA, ["schema.yaml: ", "found a list", "name: value"]),
    "schema with a tag": ({CSV: GOOD, SCHEMA: "columns: !!python/name:os.system\n"}, BY_SCHEMA, ["schema.yaml:1:10: "]),
    "misspelt role": (
        {CSV: GOOD, SCHEMA: schema(a={"role": "featur"})},
        BY_SCHEMA,
        ["schema.yaml: columns.a.role: expected 'feature'", "found 'featur' (did you mean 'feature'?)"],
    ),
    "misspelt key": (
        {CSV: GOOD, SCHEMA: schema(a={"rol": "feature"})},
        BY_SCHEMA,
        ["schema.yaml: columns.a.rol: unknown key (did you mean 'role'?)", "known keys: categories"],
    ),
    "misspelt filling": (
        {CSV: GOOD, SCHEMA: schema(a={"missing": "meen"})},
        BY_SCHEMA,
        ["schema.yaml: columns.a.missing: ", "found 'meen' (did you mean 'mean'?)"],
    ),
    "long delimiter": ({CSV: GOOD}, {"delimiter": "::"}, ["source: delimiter: ", "at most 1 character, found '::'"]),
}

BAD_ROWS = {  # seen when the rows are read
    "byte not UTF-8": ({CSV: cell(5, 1, "\xe9").encode("latin-1")}, {}, ["table.csv:5: ", "byte 0xe9", "latin-1"]),
    "line too short": ({CSV: GOOD.replace("\n", "\n1,2,3\n", 1)}, {}, ["table.csv:2: ", "found 3", "the delimiter"]),
    "last line cut": ({CSV: GOOD[:-12]}, {}, ["table.csv:61: expected 4 values", "cut short; copy or download"]),
    "unclosed quote": (
        {CSV: cell(7, 1, '"0.5')},
        {},
        ["table.csv:7: a quoted value is not closed", "close the quote"],
    ),
    "no number": ({CSV: cell(9, 2, "1.2.3")}, {}, ["table.csv:9, column 'c': ", "found '1.2.3'", "fix the value"]),
    "no number, with a schema": (
        {CSV: cell(9, 2, "x"), SCHEMA: schema()},
        BY_SCHEMA,
        ["table.csv:9, column 'c': expected a number, found 'x'", "fix the value"],
    ),
    "NaN": ({CSV: cell(9, 2, "NaN")}, {}, ["table.csv:9, column 'c', value 'NaN': ", "set missing: drop, mean"]),
    "infinity": ({CSV: cell(9, 2, "inf")}, {}, ["table.csv:9, column 'c', value 'inf': ", "fix the value"]),
    "too large": ({CSV: cell(9, 2, "1e39")}, {}, ["table.csv:9, column 'c', value '1e39': ", "use dtype float64"]),
    "target missing": ({CSV: cell(9, 3, "")}, {}, ["table.csv:9, column 'y', value '': ", "set missing: drop for"]),
    "target infinite": ({CSV: cell(9, 3, "-inf")}, {}, ["table.csv:9, column 'y', value '-inf': ", "fix the value"]),
    "target constant": ({CSV: column(3, "7.5")}, {}, ["target 'y': ", "found 7.5 in every row", "choose another"]),
    "weight below 0": (
        {CSV: cell(6, 2, "-1")},
        {"weight": "c"},
        ["table.csv:", "column 'c'", "of at least 0", "fix the value"],
    ),
    "weights all 0": ({CSV: column(2, "0")}, {"weight": "c"}, ["weight: ", "found 0 in every row", "another column"]),
    "fraction": (
        {CSV: GOOD, SCHEMA: schema(c={"dtype": "integer"})},
        BY_SCHEMA,
        ["table.csv:2, column 'c', value '", "expected an integer", "set dtype: number"],
    ),
    "no such date": (
        {CSV: column(2, "2020-13-05"), SCHEMA: schema(c={"dtype": "date", "encoding": {"date_parts": ["month"]}})},
        BY_SCHEMA,
        ["table.csv:2, column 'c', value '2020-13-05': expected a date like '%Y-%m-%d'", "set the column's format"],
    ),
    "unseen category": (
        {CSV: column(2, "w"), SCHEMA: schema(c={"dtype": "string", "categories": ["u", "v"]})},
        BY_SCHEMA,
        ["table.csv:2, column 'c', value 'w': expected one of 2 categories", "set unseen: zero or other"],
    ),
    "every row dropped": (
        {CSV: column(2, ""), SCHEMA: schema(c={"missing": "drop"})},
        BY_SCHEMA,
        ["table.csv: expected rows, all 60 have missing values", "format.missing"],
    ),
    "decimal comma": (
        {CSV: GOOD.replace(",", ";").replace(".", ","), SCHEMA: schema(format={"delimiter": ";"})},
        BY_SCHEMA,
        ["table.csv:2, column '", "expected a number, found", "format.decimal: ','"],
    ),
}


def given(workshop, files, options):
    """Write the files and the pipeline; return the source's options."""
    for name, content in files.items():
        workshop.write(name, content)
    asked = {"kind": "csv", "path": CSV, "target": "y"} | options
    asked = {key: value for key, value in asked.items() if value is not None}
    workshop.pipeline(source=asked)
    return asked


def ingest(workshop, asked):
    """Ingest as the options say, on the command line."""
    options = [part for key, value in asked.items() if key not in ("kind", "path") for part in (f"--{key}", value)]
    return workshop.daskfs("ingest", asked["path"], "store.zarr", *options)


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD_HEADERS)
def test_a_bad_header_is_refused_by_every_command(workshop, case):
    files, options, expected = BAD_HEADERS[case]
    asked = given(workshop, files, options)
    before = workshop.contents()
    for command in ("validate", "plan", "run"):
        refused(workshop.daskfs(command, "pipeline.yaml"), *expected)
        assert workshop.contents() == before
    refused(ingest(workshop, asked), *expected)
    assert workshop.contents() == before


WHOLE_COLUMNS = {"fraction": 1, "no such date": 1, "unseen category": 1, "decimal comma": 4}
"""Wrong in each row: three places of each column are told, and that there are more."""


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_refused_when_it_is_read(workshop, case):
    files, options, expected = BAD_ROWS[case]
    asked = given(workshop, files, options)
    before = workshop.contents()
    places = 3 * WHOLE_COLUMNS[case] + 1 if case in WHOLE_COLUMNS else 1
    refused(workshop.daskfs("run", "pipeline.yaml"), *expected, places=places)
    assert workshop.contents() == before
    refused(ingest(workshop, asked), *expected, places=places)
    assert workshop.contents() == before


OTHER_SOURCES = {
    "parquet that is none": ({PARQUET: GOOD}, {"kind": "parquet", "path": PARQUET}, [PARQUET, "write the file again"]),
    "unknown set": ({}, {"kind": "sklearn", "name": "diabets"}, ["did you mean 'diabetes'?", "one of diabetes"]),
    "two targets": ({}, {"kind": "sklearn", "name": "linnerud"}, ["expected one target, found", "source.target"]),
    "no such array": ({}, {"kind": "zarr", "path": "X", "y": "y"}, ["X: no such Zarr array", "check the path"]),
    "unknown kind": ({}, {"kind": "cvs"}, ["source.kind: ", "found 'cvs' (did you mean 'csv'?)"]),
    "a number as name": ({CSV: GOOD}, {"kind": "csv", "path": CSV, "target": 4}, ["source.target", "put it in quotes"]),
    "misspelt filling": (
        {CSV: GOOD},
        {"kind": "csv", "path": CSV, "target": "y", "missing": "meen"},
        ["pipeline.yaml: source.missing: ", "found 'meen' (did you mean 'mean'?)"],
    ),
    "other columns in the second file": (
        {"t1.csv": GOOD, "t2.csv": GOOD.replace("a,b", "b,a", 1)},
        {"kind": "csv", "path": ["t1.csv", "t2.csv"], "target": "y"},
        ["t2.csv:1: ", "column 1 is 'b', not 'a'", "give all files the same columns"],
    ),
}


@pytest.mark.parametrize("case", OTHER_SOURCES)
def test_other_sources_are_refused_likewise(workshop, case):
    files, source, expected = OTHER_SOURCES[case]
    for name, content in files.items():
        workshop.write(name, content)
    workshop.pipeline(source=source)
    before = workshop.contents()
    for command in ("validate", "plan", "run"):
        refused(workshop.daskfs(command, "pipeline.yaml"), *expected)
    assert workshop.contents() == before


TEXT = """version: 1
name: trial
source: {kind: csv, path: table.csv, target: y}
store: {path: trial.zarr}
select: {method: message, n_subsets: 3}
output: trial
"""
BAD_PIPELINES = {  # what is replaced in the text, by what (None: the whole text), what the message says
    "unknown section": (
        "output",
        "outptu",
        ["outptu: unknown key (did you mean 'output'?)", "known keys: checkpoint, clumps, cluster"],
    ),
    "unknown key": ("n_subsets", "n_subset", ["select.n_subset: unknown key (did you mean 'n_subsets'?)"]),
    "unknown option": ("target: y", "taget: y", ["source.taget: unknown key (did you mean 'target'?)"]),
    "wrong type": ("3}", "three}", ["pipeline.yaml: select.n_subsets: expected a valid integer, found 'three'"]),
    "a truth": ("3}", "true}", ["pipeline.yaml: select.n_subsets: expected a valid integer, found True"]),
    "unknown method": ("message", "mesage", ["select.method: ", "found 'mesage' (did you mean 'message'?)"]),
    "nothing to select": ("{method: message, n_subsets: 3}", "[]", ["select: list should have at least 1 item"]),
    "version": ("version: 1", "version: 2", ["pipeline.yaml: version: expected 1, found 2"]),
    "a list": (None, "- a\n", ["pipeline.yaml: expected a mapping", "found a list"]),
    "a word": (None, "hello\n", ["pipeline.yaml: expected a mapping", "found text"]),
    "nothing": (None, "", ["pipeline.yaml: expected a mapping", "found an empty file"]),
    "no UTF-8": (None, b"\xff\xfe", ["pipeline.yaml: expected UTF-8 text, found byte 0xff", "save the file as UTF-8"]),
    "a control character": (None, b"name: \0\n", ["pipeline.yaml: not valid YAML", "fix the file"]),
    "a bracket left open": ("3}", "[3}", ["pipeline.yaml:5:", "not valid YAML", "fix the line"]),
    "a key twice": (
        "output: trial",
        "version: 1",
        ["pipeline.yaml:6:1: ", "duplicate key 'version' (first on line 1)"],
    ),
    "a tag": ("1\n", '!!python/object/apply:os.system ["touch owned"]\n', ["pipeline.yaml:1:10: ", "never executed"]),
    "a tag of classes": (
        "trial\n",
        '!!python/object/new:os.mkdir ["owned"]\n',
        ["pipeline.yaml:2:7: ", "never executed"],
    ),
    "an unset variable": (
        "table.csv",
        "'${DASKFS_UNSET}/t.csv'",
        ["DASKFS_UNSET is not set", "export DASKFS_UNSET=..."],
    ),
    "too many features": ("3}", "3, max_features: 4}", ["select.max_features", "there are 3; request at most 3"]),
    "no such split": ("output", "split: {by: part, test: x}\noutput", ["split.by: no column 'part'", "table schema"]),
    "share of rows": (
        "output",
        "split: {test: 2}\noutput",
        ["split: test: expected a proportion", "found 2", "split: null"],
    ),
    "no true features": (
        "output",
        "evaluate: {metrics: [selection_recall]}\noutput",
        ["evaluate.metrics: ", "synthetic source"],
    ),
    "size": (
        "output",
        "cluster: {memory_limit: lots}\noutput",
        ["cluster.memory_limit: expected a size, found 'lots'"],
    ),
    "job queue": ("output", "cluster: {kind: kubernetes}\noutput", ["cluster.kind: ", "with kind: address"]),
    "run in its store": ("output: trial", "output: trial.zarr/run", ["output: expected a run folder outside"]),
    "store in its run": ("trial.zarr", "trial/t.zarr", ["output: expected a run folder outside", "store.path"]),
    "no source": ("source: {kind: csv, path: table.csv, target: y}\n", "", ["source: expected a source or a store"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD_PIPELINES)
def test_a_bad_pipeline_is_refused_with_its_place_and_executes_nothing(workshop, monkeypatch, case):
    monkeypatch.delenv("DASKFS_UNSET", raising=False)
    old, new, expected = BAD_PIPELINES[case]
    workshop.write("table.csv", GOOD)
    if old is not None:
        assert old in TEXT
        new = TEXT.replace(old, new, 1)
    workshop.write("pipeline.yaml", new)
    before = workshop.contents()
    for command in ("validate", "plan", "run"):
        refused(workshop.daskfs(command, "pipeline.yaml"), *expected)
        assert workshop.contents() == before


def test_every_place_of_a_pipeline_gets_a_line(workshop):
    workshop.pipeline(select={"method": "message", "n_subset": 3, "tie": "dorp"}, clster={}, name=3)
    ended = workshop.daskfs("run", "pipeline.yaml")
    refused(ended, "select.n_subset: ", "select.tie: ", "clster: ", "name: ", places=4)


BAD_OVERRIDES = {
    "select": ["--set select: expected key.path=value", "--set select.n_subsets=20"],
    "select.n_subset=3": ["select.n_subset: unknown key (did you mean 'n_subsets'?)"],
    "select.n_subsets.x=3": ["select.n_subsets is 3, which has no key 'x'"],
    "select.n_subsets=[1": ["--set select.n_subsets=[1", "not valid YAML"],
    'name=!!python/object/apply:os.system ["touch owned"]': ["never executed"],
}


@pytest.mark.parametrize("override", BAD_OVERRIDES)
def test_a_bad_override_is_refused(workshop, override):
    workshop.write("table.csv", GOOD)
    workshop.pipeline()
    before = workshop.contents()
    refused(workshop.daskfs("run", "pipeline.yaml", "--set", override), *BAD_OVERRIDES[override])
    assert workshop.contents() == before


@pytest.mark.slow
def test_a_plan_over_the_limit_is_refused_and_its_remedies_work(workshop):
    source = {"kind": "synthetic", "n_samples": 4000, "n_features": 500}
    workshop.pipeline(source=source, select={"method": "message", "n_subsets": 1}, cluster={"memory_limit": "414MiB"})
    before = workshop.contents()
    refused(
        workshop.daskfs("plan", "pipeline.yaml", "--set", "cluster.memory_limit=100MiB"),
        "cluster.memory_limit: a process takes 400.3 MiB before its first block (the process 384.0 MiB, held between "
        "tasks 16.0 MiB, target, weights and order of the rows 250.0 KiB), but the memory limit is 100.0 MiB",
        "allow at least 480MiB",
    )
    for command in ("plan", "run"):
        ended = workshop.daskfs(command, "pipeline.yaml")
        refused(ended, "cluster.memory_limit: one subset of 3,200 rows x 500 columns takes", "or set n_subsets=")
        assert workshop.contents() == before
    limit = ""
    for _ in range(3):  # one process has several needs, told one by one
        if ended.code == 0:
            break
        limit = ended.errors.partition("at least ")[2].split()[0].rstrip(",")
        ended = workshop.daskfs("run", "pipeline.yaml", "--set", f"cluster.memory_limit={limit}")
    assert ended.code == 0, str(ended)
    assert limit.endswith("MiB")


def test_a_constant_column_and_an_unended_line_are_kept_and_noted(workshop):
    workshop.write("table.csv", column(2, "7.5").rstrip("\n"))
    workshop.pipeline()
    assert workshop.daskfs("run", "pipeline.yaml").code == 0
    notes = " ".join(json.loads((workshop.folder / "trial" / "result.json").read_text())["notes"])
    assert "constant" in notes
    assert "'c'" in notes
    assert "the last line has no line end" in notes


ODD_TABLES = {
    "one column": "a,y\n" + "".join(f"{i * 37 % 101},{i * 74 % 101}\n" for i in range(60)),
    "more columns than rows": ",".join(f"x{j}" for j in range(100))
    + ",y\n"
    + "".join(",".join(str((i * j * 7919 + j) % 101) for j in range(1, 101)) + f",{i}\n" for i in range(40)),
    "long names": ",".join(f"{'n' * 300}{j}" for j in range(300))
    + ",y\n"
    + "".join(",".join(str((i * j * 7919 + j) % 101) for j in range(1, 301)) + f",{i}\n" for i in range(40)),
    "numbers as names": GOOD.replace("a,b,c,", "1,2,3,", 1),
    "some weights zero": column(2, "1").replace(",1,", ",0,", 7),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ODD_TABLES)
def test_odd_tables_run(workshop, case):
    workshop.write("table.csv", ODD_TABLES[case])
    weight = {"weight": "c"} if case == "some weights zero" else {}
    workshop.pipeline(source={"kind": "csv", "path": "table.csv", "target": "y", **weight})
    ended = workshop.daskfs("run", "pipeline.yaml")
    assert ended.code == 0, ended
    assert set(ended.complaints) <= {"warning: Message: no feature was selected"}


@pytest.mark.parametrize("n_rows", [1, 2])
def test_too_few_rows_are_refused(workshop, n_rows):
    workshop.write("table.csv", "a,y\n" + "".join(f"{i},{i * i}\n" for i in range(n_rows)))
    workshop.pipeline()
    before = workshop.contents()
    refused(
        workshop.daskfs("run", "pipeline.yaml"), "n_subsets: expected at least two rows per subset", "give more rows"
    )
    assert workshop.contents() == before


def test_a_schema_gives_way_to_the_target_asked_for(workshop):
    workshop.write("table.csv", GOOD)
    workshop.write("schema.yaml", schema())
    workshop.pipeline(source={"kind": "csv", "path": "table.csv", "schema": "schema.yaml", "target": "a"})
    assert workshop.daskfs("run", "pipeline.yaml").code == 0
    result = json.loads((workshop.folder / "trial" / "result.json").read_text())
    assert any("column 'y', the schema's target, is ignored" in note for note in result["notes"])
    assert result["n_features"] == 2


def test_spaces_and_letters_of_every_alphabet_may_stand_in_paths_and_names(workshop):
    workshop.write("données été/my täble ②.csv", GOOD.replace("a,b,c,y", "größe m²,b c,<i>,Ziel 目标", 1))
    source = {"kind": "csv", "path": "données été/my täble ②.csv", "target": "Ziel 目标"}
    workshop.pipeline("my pipe line é.yaml", source=source, store={"path": "s p/ü.zarr"}, output="résultat 1")
    ended = workshop.daskfs("run", "my pipe line é.yaml")
    assert ended.code == 0, ended
    assert "größe m²" in (workshop.folder / "résultat 1" / "selected.csv").read_text("utf-8")
    assert workshop.daskfs("verify", "s p/ü.zarr").code == 0
    assert "<i>" not in (workshop.folder / "résultat 1" / "report.html").read_text("utf-8")

"""A messy table becomes a report without a schema written by hand."""

from __future__ import annotations

import datetime
import json
import lzma
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import daskfs
from daskfs.cli import app
from daskfs.documents import read_yaml
from daskfs.errors import ConfigError, SourceError
from daskfs.pipeline.drafting import draft, source_of_file
from tests.refusals import refused

N = 600


def messy(file: Path, seed: int = 0) -> Path:
    """Semicolons, decimal commas, a byte-order mark, percents, dates, 5 % missing, many levels, a copy, free text."""
    rng = random.Random(seed)
    words = ["the", "a", "parcel", "came", "late", "but", "we", "were", "quite", "happy"]
    lines = ["Kunde;Datum;Umsatz;Rabatt;Region;Stadt;Umsatz2;Kommentar;Aktiv;Plz;Konstant;Gewinn"]
    for i in range(N):
        sales, rebate = rng.gauss(1000, 300), rng.choice([0, 5, 7.5, 10])
        region = rng.choice(["Nord", "Süd", "Ost", "West"])
        profit = 0.3 * sales - 20 * rebate + 100 * (region == "Süd") + rng.gauss(0, 30)
        day = datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(1000))
        some = [day.strftime("%d.%m.%Y"), f"{sales:.2f}".replace(".", ","), f"{rebate} %".replace(".", ","), region]
        some = ["" if rng.random() < 0.05 else text for text in some]
        comment = '"' + " ".join(rng.choices(words, k=8)) + '; ok"'
        city, active, code = f"City {rng.randrange(900):03}", rng.choice(["ja", "nein"]), rng.choice([1067, 10115])
        row = [f"K{i:05}", *some, city, some[1], comment, active, f"{code:05}", "x", f"{profit:.2f}".replace(".", ",")]
        lines.append(";".join(row))
    file.write_bytes(b"\xef\xbb\xbf" + ("\r\n".join(lines) + "\r\n").encode())
    return file


def test_two_commands_lead_from_a_messy_table_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    messy(tmp_path / "messy.csv")
    said = CliRunner().invoke(app, ["init", "messy.csv", "--target", "Gewinn"])
    assert said.exit_code == 0, said.output
    assert "'Umsatz2': is a copy of 'Umsatz'" in said.output
    assert said.output.rstrip().endswith("wrote messy.schema.yaml and messy.yaml"), "piped, so nothing is suggested"
    done = CliRunner().invoke(app, ["run", "messy.yaml"])
    assert done.exit_code == 0, done.output
    names = (tmp_path / "runs" / "messy" / "selected.csv").read_text()
    for wanted in ("Umsatz", "Rabatt", "Region=Süd"):
        assert wanted in names
    for left_out in ("Kunde", "Umsatz2", "Kommentar", "Konstant"):
        assert left_out not in names
    metrics = json.loads((tmp_path / "runs" / "messy" / "metrics.json").read_text())
    assert "r2" in json.dumps(metrics)


@pytest.mark.slow
def test_select_takes_the_table_itself_and_keeps_a_schema_that_somebody_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    messy(tmp_path / "messy.csv")
    command = ["select", "messy.csv", "--target", "Gewinn", "--method", "fgm", "--n-features", "3"]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    schema = tmp_path / "runs" / "messy.schema.yaml"
    assert "Umsatz2" in first.stderr
    changed = schema.read_text() + "# looked at\n"
    schema.write_text(changed)
    second = CliRunner().invoke(app, [*command, "--force"])
    assert second.exit_code == 0, second.output
    assert "using the existing schema" in second.stderr
    assert schema.read_text() == changed


@pytest.mark.parametrize("name", ["days.jsonl", "days.jsonl.xz"])
def test_select_takes_the_usual_field_of_json_lines_for_the_target(tmp_path: Path, name: str) -> None:
    with (lzma.open if name.endswith(".xz") else open)(tmp_path / name, "wt") as out:
        out.write(json.dumps({"y": 3, "text": "sun", "Label": "dry"}) + "\n")
    _, source, said = source_of_file(tmp_path / name, None, tmp_path)
    assert (source["kind"], source["target"]) == ("text", "Label")  # before y, as in a table
    assert any("'Label'" in line for line in said)
    _, source, said = source_of_file(tmp_path / name, "y", tmp_path)
    assert (source["target"], said) == ("y", [])


def test_documents_without_such_a_field_have_no_target(tmp_path: Path) -> None:
    for line in ('{"text": "sun"}', "[1]", "no JSON"):
        (tmp_path / "days.jsonl").write_text(line + "\n")
        _, source, _ = source_of_file(tmp_path / "days.jsonl", None, tmp_path)
        assert "target" not in source


def test_nothing_is_replaced_unless_asked(tmp_path: Path) -> None:
    file = messy(tmp_path / "messy.csv")
    draft(file, "Gewinn", tmp_path)
    with refused(ConfigError, "drafts", naming=["--force"]):
        draft(file, "Gewinn", tmp_path)
    draft(file, "Gewinn", tmp_path, force=True)


def test_parquet_tables_and_folders_of_them_are_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for k in range(2):
        table = pa.table(
            {
                "when": pa.array([datetime.datetime(2020, 1 + i % 12, 1, i % 5) for i in range(40)]),
                "x": pa.array([float(i * i % 7) if i % 9 else None for i in range(40)]),
                "colour": pa.array(["red", "blue"] * 20).dictionary_encode(),
                "y": pa.array([float(i) for i in range(40)]),
            }
        )
        parquet.write_table(table, folder / f"{k}.parquet")
    drafted = draft(folder, None, tmp_path)
    assert drafted.pipeline.name == "days.yaml"
    assert drafted.look.n_rows >= 80
    columns = read_yaml(drafted.schema)["columns"]
    assert columns["when"]["dtype"] == "datetime"
    assert columns["x"] == {"missing": "mean", "missing_indicator": True}
    assert columns["colour"]["dtype"] == "string"
    store = daskfs.ingest(folder, tmp_path / "days.zarr", schema=drafted.schema)
    assert store.shape[0] == 80
    assert "x=missing" in list(store.names.array())


def test_sources_that_need_no_schema_are_told_so(tmp_path: Path) -> None:
    file = tmp_path / "a.svm"
    file.write_text("1 1:2\n")
    with refused(SourceError, "formats", naming=["schema"]):
        draft(file, None, tmp_path)


def test_what_was_decided_comes_as_json_too(tmp_path: Path) -> None:
    file = messy(tmp_path / "messy.csv")
    said = CliRunner().invoke(app, ["init", str(file), "--target", "Gewinn", "--output", str(tmp_path), "--json"])
    document = json.loads(said.stdout)
    assert document["target"] == "Gewinn"
    assert {one["name"]: one["entry"] for one in document["columns"]}["Rabatt"]["dtype"] == "percent"


def test_missing_dates_and_numbers_have_features_that_say_so(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("y,p,d,x\n1,12.5 %,2020-01-03,1.5\n2,7%,,\n3,,2021-02-04,2\n")
    columns = {
        "y": {"role": "target"},
        "p": {"dtype": "percent", "missing": "zero", "missing_indicator": True},
        "d": {
            "dtype": "date",
            "encoding": {"date_parts": ["year"]},
            "missing": "zero",
            "missing_indicator": True,
        },
        "x": {"missing": "mean", "missing_indicator": True},
    }
    store = daskfs.ingest(file, tmp_path / "t.zarr", schema={"columns": columns}, shuffle=False)
    assert list(store.names.array()) == ["p", "p=missing", "d.year=2020", "d.year=2021", "d=missing", "x", "x=missing"]
    expected = [[12.5, 0, 1, 0, 0, 1.5, 0], [7, 0, 0, 0, 1, 1.75, 1], [0, 1, 0, 1, 0, 2, 0]]
    assert store.read(slice(None), slice(None)).tolist() == expected


@pytest.mark.slow
def test_the_pipeline_file_may_be_named(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b,y\n" + "".join(f"{k % 7},{k % 5},{k % 3 + 0.5}\n" for k in range(60)))
    drafted = draft(file, "y", tmp_path / "made" / "my own.yaml")
    assert drafted.pipeline == tmp_path / "made" / "my own.yaml"
    assert drafted.schema == tmp_path / "made" / "my-own.schema.yaml"
    assert CliRunner().invoke(app, ["run", str(drafted.pipeline)]).exit_code == 0


def test_names_of_several_lines_and_signs_of_yaml_are_kept(tmp_path: Path) -> None:
    names = ["of two\nlines", "a: b", "{x}", "# c", "no", "'", "- d", "\u2028", " ".join(["long"] * 50)]
    file = tmp_path / "t.parquet"
    columns = {name: [float((k * (j + 2)) % 11) for k in range(60)] for j, name in enumerate(names)}
    parquet.write_table(pa.table(columns | {"y": [k % 3 + 0.5 for k in range(60)]}), file)
    drafted = draft(file, "y", tmp_path)
    assert list(read_yaml(drafted.schema)["columns"]) == [*names, "y"]


@pytest.mark.slow
def test_a_number_too_large_for_float32_is_stored_as_the_error_says(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b,y\n" + "".join(f"{k}e37,{k % 5},{k + 0.5}\n" for k in range(60)))
    command = ["select", str(file), "--target", "y", "--output", str(tmp_path / "run"), "--method", "fgm"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        failed = CliRunner().invoke(app, command)
        assert failed.exit_code == 2
        assert "--dtype float64" in " ".join(failed.output.split())
        assert CliRunner().invoke(app, [*command, "--dtype", "float64"]).exit_code == 0
    assert str(daskfs.open_store(tmp_path / "runs" / "t.zarr").dtype) == "float64"


def test_a_header_without_rows_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b,y\n")
    with refused(SourceError, "formats", naming=["header"]):
        draft(file, "y", tmp_path)


def test_a_header_is_one_where_it_names_the_target_or_stands_above_numbers(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,a,y\n1,2,3\n2,3,5\n")
    for target in ("y", None):
        with refused(SourceError, "formats", naming=["'a'"]):
            draft(file, target, tmp_path)

"""The pages of runs, and of Python fits, as people read them."""

import html
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from daskfs import FGM, AsyncOnlineSubstitution, OnlineSubstitution, examine
from daskfs.documents import dump_yaml, read_yaml
from daskfs.errors import SchemaError
from daskfs.evidence import MissingRecord
from daskfs.pipeline.config import build_pipeline, load_pipeline
from daskfs.pipeline.drafting import draft
from daskfs.pipeline.run import run_pipeline
from daskfs.report.html import render_report
from tests.genotype_files import write_phenotypes, write_plink

N_ROWS = 400


def messy_table():
    """A table that init warns of, with missing values, and categories of which few levels matter."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N_ROWS, 3)), columns=["speed", "height", "noise"])
    table["town"] = rng.choice([f"town {k}" for k in range(8)], N_ROWS)
    table["number"], table["constant"] = np.arange(N_ROWS) * 7, 1
    table["house code"] = rng.integers(1, 9, N_ROWS)
    price = 1000 * table["speed"] + 700 * table["height"] + 800 * (table["town"] == "town 3")
    table["price"] = 5000 + price + 300 * rng.normal(size=N_ROWS)
    table.loc[::10, "height"] = np.nan
    table.loc[::20, "town"] = None
    return table


@pytest.fixture(scope="module")
def drafted_and_outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    messy_table().to_csv(folder / "houses.csv", index=False)
    drafted = draft(folder / "houses.csv", "price", folder)
    given = ["select={method: online_substitution, n_features_to_select: 3}", "output=run", "store.path=x.zarr"]
    return drafted, run_pipeline(load_pipeline(drafted.pipeline, [*given, "cluster={kind: none}"]))


@pytest.fixture(scope="module")
def page(drafted_and_outcome):
    return drafted_and_outcome[1].report.read_text(encoding="utf-8")


def cells_of(page, name):
    """The lines of a table by its name, a list of texts for each."""
    found = re.search(rf'aria-label="{name}"><table[^>]*>.*?<tbody>(.*?)</tbody></table></div>', page, flags=re.DOTALL)
    lines = re.findall(r"<tr>(.*?)</tr>", found[1])
    return [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<t[dh].*?</t[dh]>", x)] for x in lines]


@pytest.mark.slow
def test_the_page_has_all_that_init_warned_of(drafted_and_outcome, page):
    drafted, outcome = drafted_and_outcome
    warned = drafted.look.inferred.suspicions
    assert len(warned) >= 3
    listed = re.search(r'<div class="warnings">(.*?)</div>', page, flags=re.DOTALL)[1]
    assert [text for text in warned if text not in html.unescape(listed)] == []
    assert outcome.results["online_substitution"].evidence.warnings[: len(warned)] == warned


@pytest.mark.slow
def test_what_is_settled_in_the_schema_is_told_no_more(drafted_and_outcome, tmp_path):
    drafted, outcome = drafted_and_outcome
    schema = read_yaml(drafted.schema, SchemaError)
    for column in schema["columns"].values():
        column.pop("look_at", None)
    drafted.schema.with_name("settled.schema.yaml").write_text(dump_yaml(schema))
    given = ["select={method: online_substitution, n_features_to_select: 3}", f"output={tmp_path}/run"]
    given += ["store.path=x.zarr", "cluster={kind: none}", "source.schema=settled.schema.yaml"]
    again = run_pipeline(load_pipeline(drafted.pipeline, given))
    before, after = (one.results["online_substitution"] for one in (outcome, again))
    assert set(before.evidence.warnings) - set(after.evidence.warnings) == {*drafted.look.inferred.suspicions}
    assert after.store_digest == before.store_digest, "the same store serves"


def test_errors_come_first_in_units_of_the_target(page):
    rmse, mae, *_ = lines = cells_of(page, "Metrics")
    assert rmse[0].endswith("(RMSE), in price")
    assert mae[0].endswith("(MAE), in price")
    assert 250 < float(rmse[1].replace(",", "")) < 600 < float(rmse[3].replace(",", "")) < 2500
    (r2,) = (line for line in lines if line[0].startswith("R²"))
    assert (lines.index(r2) > 1, r2[3]) == (True, "")


def test_what_was_missing_is_told_by_column_with_what_took_its_place(drafted_and_outcome, page):
    town, height = sorted(cells_of(page, "Missing values"), reverse=True)
    mean = messy_table()["height"].mean()
    assert town == ["town", "20", "its own category"]
    assert height[:2] == ["height", "40"]
    assert height[2] == f"the mean, {mean:.3g}; an indicator feature marks them"
    first, _ = drafted_and_outcome[1].results["online_substitution"].evidence.data.missing
    assert first.value == pytest.approx(mean, rel=1e-12), "files have all digits"


def test_a_model_worse_than_a_constant_explains_no_variance():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 30)), rng.standard_normal(120)
    fitted = OnlineSubstitution(25).fit(X[:40], y[:40])
    result = examine(fitted, (X[:40], y[:40]), test=(X[40:], y[40:]))
    assert result.metrics["r2"] < 0.0
    page = render_report("fit", {"fit": result})
    assert "worse than a constant" in page
    assert "of its variance" not in page


def test_near_misses_of_one_column_are_one_line():
    table = messy_table()[["speed", "town", "noise"]].dropna()
    y = 1000 * table["speed"].to_numpy() + np.arange(len(table))
    fitted = OnlineSubstitution(1).fit(table, y)
    fitted.result_.scores = np.linspace(1.0, 0.5, 10)  # this method's are of selected features alone
    page = render_report("fit", {"fit": examine(fitted, (table, y))})
    assert [line[0] for line in cells_of(page, "Near misses")] == ["town=town 0 and 7 more of town", "noise"]


def test_numbers_have_three_digits_and_identities_are_at_the_foot(drafted_and_outcome, page):
    before, _, foot = page.partition("<h2>Reproduce this run</h2>")
    digest = drafted_and_outcome[1].results["online_substitution"].store_digest
    assert (digest in before, digest in foot) == (False, True)
    text = re.sub(r"<(svg|style|script).*?</\1>|<[^>]*>", " ", before, flags=re.DOTALL)
    numbers = re.findall(r"(?<![\w.])\d[\d,]*\.\d+(?:e-?\d+)?", text)
    assert numbers
    assert [one for one in numbers if len(re.sub(r"e.*|\D", "", one).lstrip("0")) > 3] == []


def test_the_effects_are_drawn_under_the_features(page):
    assert page.index("<h2>Selected features") < page.index("<h3>Effects</h3>") < page.index("<h2>Prediction quality")


def test_a_python_fit_has_the_evidence_of_a_run(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = np.where(X[:, 1] + 0.5 * rng.normal(size=300) > 0, "yes", "no")
    fitted = OnlineSubstitution(2, loss="logistic").fit(X[:200], y[:200])
    result = examine(fitted, (X[:200], y[:200]), test=(X[200:], y[200:]))
    assert result is fitted.result_
    assert result.metrics["accuracy"] == fitted.score(X[200:], y[200:])
    test = result.evidence.test
    assert (test.n_rows, test.labels) == (100, ["no", "yes"])
    page = render_report("fit", {"fit": type(result).load(result.save(tmp_path))})
    assert [line[0] for line in cells_of(page, "Confusion matrix")] == ["no", "yes"]
    assert "Calibration" in page
    assert dict(cells_of(page, "Data and settings"))["source"] == "arrays in memory"
    assert list(fitted.classes_) == ["no", "yes"], "the fit is as it was"


def heads_of(page, name):
    """The titles of a table's columns, each with the classes of its cell."""
    found = re.search(rf'aria-label="{name}"><table[^>]*><thead><tr>(.*?)</tr>', page, flags=re.DOTALL)
    return {html.unescape(re.sub("<[^>]*>", "", cell)): cell for cell in re.findall(r"<th.*?</th>", found[1])}


def test_a_page_of_genotypes_knows_its_variants_target_and_files(tmp_path):
    rng = np.random.default_rng(0)
    dosages = rng.integers(0, 3, (200, 20))
    write_plink(tmp_path / "cohort.bed", dosages)
    write_phenotypes(tmp_path / "ph.txt", {"height": 2.0 * dosages[:, 3] - dosages[:, 7] + rng.normal(size=200)})
    source = {"kind": "plink", "path": "cohort.bed", "phenotypes": "ph.txt", "target": "height"}
    select = {"method": "online_substitution", "n_features_to_select": 3}
    document = {"version": 1, "name": "cohort", "source": source, "store": "none", "select": select, "output": "run"}
    page = run_pipeline(build_pipeline(document, "test", tmp_path)).report.read_text(encoding="utf-8")
    asked = dict(cells_of(page, "Data and settings"))
    assert (asked["target"], asked["source"]) == ("height", "cohort.bed")
    heads = heads_of(page, "Selected features")
    for name in ("chromosome", "position", "effect allele", "other allele", "allele frequency"):
        assert "less" not in heads[name], "it is printed, too"
    lines = {line[1]: dict(zip(heads, line, strict=True)) for line in cells_of(page, "Selected features")}
    assert {"rs3", "rs7"} <= {*lines}
    assert (lines["rs3"]["chromosome"], lines["rs3"]["position"]) == ("1", "3")
    assert (lines["rs3"]["effect allele"], lines["rs3"]["other allele"]) == ("A", "G")
    assert float(lines["rs3"]["allele frequency"]) == pytest.approx(dosages[:, 3].mean() / 2, abs=1e-3)
    assert page.index("<h3>Effects</h3>") < page.index("<h2>Prediction quality")
    assert "height per standard deviation" in page


def test_a_page_of_a_stream_has_effects_errors_calibration_and_the_names_of_the_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8)).round(3)
    y = np.where(2.0 * X[:, 1] - X[:, 4] + rng.logistic(size=600) > 0, 1, -1)
    rows = [f"{y[i]} " + " ".join(f"{40 + j}:{x}" for j, x in enumerate(row)) for i, row in enumerate(X)]
    (tmp_path / "s.svm").write_text("\n".join(rows) + "\n")
    select = {"method": "mission", "n_features_to_select": 2, "loss": "logistic"}
    document = {
        "version": 1,
        "name": "stream",
        "source": {"kind": "libsvm", "path": "s.svm"},
        "store": "none",
        "split": {"test": 0.25, "random_state": 0},
        "select": select,
        "output": "run",
    }
    page = run_pipeline(build_pipeline(document, "test", tmp_path)).report.read_text(encoding="utf-8")
    for title in ("Effects", "Confusion matrix", "Calibration"):
        assert f"<h3>{title}</h3>" in page
    assert {line[1] for line in cells_of(page, "Selected features")} == {"41", "44"}
    assert "baseline" in page
    assert "x1" not in re.sub("<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert re.search(r"Highest: [\d.]+, of 4[14]; last shown: [\d.]+, of 4[14]\.", page)
    assert "in 1 pass." in page
    assert dict(cells_of(page, "Data and settings"))["source"] == "s.svm"


def test_a_page_says_which_of_two_classes_an_effect_makes_more_likely():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    y = np.where(X["b"] + rng.logistic(size=200) > 0, "ill", "healthy")
    result = examine(FGM(2).fit(X[:150], y[:150]), (X[:150], y[:150]), (X[150:], y[150:]))
    assert result.class_of_effects == "ill"
    assert "change of log-odds of ill when" in render_report("fit", {"fit": result})


@pytest.mark.slow  # kernels of several classes
@pytest.mark.parametrize("selector", [FGM(2), AsyncOnlineSubstitution(2, n_workers=2)], ids=["fgm", "asy-os"])
def test_several_classes_have_a_table_of_effects(selector):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    y = np.array(["low", "middle", "high"])[np.digitize(X["b"] + 0.3 * rng.normal(size=300), [-0.5, 0.5])]
    fitted = selector.fit(X, y)
    result = examine(fitted, (X, y))
    lines = {line[0]: line[1:] for line in cells_of(render_report("fit", {"fit": result}), "Effects by class")}
    coef = fitted.coef_[:, 1] * X["b"].std(ddof=0)
    assert result.evidence.class_labels == ["high", "low", "middle"]
    assert [float(cell) for cell in lines["b"]] == pytest.approx(coef, rel=0.01)


def test_the_result_comes_first_and_long_lists_open_on_request():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    result = examine(FGM(2).fit(X, X["b"] + rng.normal(size=200)), (X, X["b"]))
    lists = [MissingRecord(f"m{k}", 1, "zero") for k in range(40)], [f"warning {k}" for k in range(40)]
    for n in (2, 40):
        evidence = result.evidence
        data = replace(evidence.data, missing=lists[0][:n])
        page = render_report(
            "fit", {"fit": replace(result, evidence=replace(evidence, data=data, warnings=lists[1][:n]))}
        )
        assert (
            page.index("<h2>Selected features") < page.index("<h2>Data and settings") < page.index("<h2>Missing values")
        )
        assert len(cells_of(page, "Missing values")) == n
        assert page.count("<summary>40 columns</summary>") == (n == 40)
        assert page.count("<summary>and 34 more</summary>") == (n == 40)
        assert all(f"<li>warning {k}</li>" in page for k in range(n))
    assert "before any refit" in page

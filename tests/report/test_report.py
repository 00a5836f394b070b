import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

from daskfs.errors import RunError
from daskfs.evidence import DataRecord, EvidenceRecord, QualityRecord
from daskfs.figures import HISTORIES, history_figure
from daskfs.methods import METHODS, find_method
from daskfs.report import html as report_html
from daskfs.report.comparison import differences, sentences
from daskfs.report.html import SCORE_KINDS, SCRIPTS, asset, render_report
from daskfs.report.runs import load_run, report_as_json, write_report
from daskfs.report.size_curves import lines_by_size
from daskfs.result import SelectionResult
from daskfs.selected_table import Parent, columns_of_parents, selection_table
from tests.refusals import refused

mpl.use("agg")
EVIL = "<script>alert('x')</script>"
NAMES = np.array([EVIL, "größe", "日本", "a & b", "$x_1$"], dtype=object)


def make_result(selected=(2, 0), **changes):
    scores = np.array([0.7, 0.4, 1.0, np.nan, 0.1])
    history = {"lambda": [1.0, 0.5, 0.1], "df": [0, 2, 5], "rss": [3.0, 1.0, 0.9], "gic": [5.0, 2.0, 3.0]}
    result = SelectionResult(
        "message",
        selection_table(selected, np.ones(len(selected)), scores[list(selected)], NAMES),
        0.5,
        {"criterion": EVIL},
        n_samples=50,
        n_features=5,
        history=pd.DataFrame({**history, "chosen": [False, True, False]}),
        scores=scores,
        feature_names=NAMES,
        store_digest="abc",
        metrics={"mse": 1.5},
        time={"select": 1.0},
        memory={
            "limit_nbytes": {"client": 2**30, "worker": 2**30},
            "promised_nbytes": {"client": 300 * 2**20, "worker": 200 * 2**20},
            "measured_nbytes": {"client": 250 * 2**20, "worker-0": 180 * 2**20},
        },
        notes=[f"dropped {EVIL}"],
        score_kind="inclusion frequency",
        history_kind="criterion path",
    )
    for name, value in changes.items():
        setattr(result, name, value)
    return result


class Checker(HTMLParser):
    VOID = ("meta", "br", "use", "path", "rect", "defs")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [v for k, v in attributes if k in ("src", "href", "xlink:href") and not v.startswith("#")]
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return checker


def test_the_page_is_whole_and_needs_nothing_else():
    checker = checked(render_report("power", {"message": make_result()}))
    assert checker.tags.count("script") == len(SCRIPTS), "those that the page's policy names"
    assert {"link", "img", "iframe", "object"} & {*checker.tags} == set()
    assert checker.addresses == []
    assert checker.tags.count("svg") == 3, "coefficients, scores, and how it went"


def test_the_page_lets_run_nothing_but_its_own_scripts():
    page = render_report("power", {"message": make_result()})
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall(r"'sha256-([^']*)'", policy) == digests


def test_what_is_inlined_is_what_its_makers_published():
    readme = (Path(report_html.__file__).parent / "assets" / "README.md").read_text()
    digest = hashlib.sha256(asset("dataTables.min.js").encode()).hexdigest()
    assert digest in readme
    assert "MIT License" in asset("dataTables.LICENSE.txt")
    assert all("</script" not in asset(name) for name in SCRIPTS)


@pytest.mark.slow
def test_names_from_the_data_are_shown_as_text():
    page = render_report(EVIL, {EVIL: make_result(), "b": make_result()})
    assert EVIL not in page
    assert page.count("&lt;script&gt;") > 5
    assert "日本" in page
    assert "a &amp; b" not in page, "its score is not defined"


def test_the_page_says_what_was_promised_and_measured():
    page = render_report("power", {"message": make_result()})
    rows = re.findall(r"<tr><td>(client|worker-0)</td>(.*?)</tr>", page)
    assert [re.findall(r">([\d,]+)<", cells) for _, cells in rows] == [["300", "250", "1,024"], ["200", "180", "1,024"]]


def test_bars_show_the_greatest_scores_and_tell_the_selected_from_others():
    result = make_result(feature_names=np.array(list("abcde"), dtype=object))
    bars = result.plot(kind="scores").patches
    assert [bar.get_width() for bar in bars] == [1.0, 0.7, 0.4, 0.1]
    assert [bar.get_fill() for bar in bars] == [True, True, False, False]
    plt.close("all")
    assert "2 of them selected (filled bars); the dashed line is at 0.5." in render_report("power", {"m": result})


@pytest.mark.parametrize(
    "changes",
    [
        {"history": pd.DataFrame()},
        {"history": pd.DataFrame({"lambda": [1.0], "df": [0], "gic": [np.nan]})},
        {"scores": None, "feature_names": None},
        {"memory": {}, "metrics": {}, "notes": [], "time": {}, "parameters": {}},
        {"table": selection_table([], [], [])},
        {"metrics": {"r2": float("nan")}},
        {"table": selection_table([], [], []).assign(**columns_of_parents([], []))},
    ],
)
def test_a_result_that_lacks_something_still_has_a_page(changes):
    checked(render_report("power", {"message": make_result(**changes)}))


@pytest.mark.slow
def test_the_same_result_gives_the_same_page():
    assert render_report("p", {"m": make_result()}) == render_report("p", {"m": make_result()})


def test_a_report_is_written_again_from_the_folder(tmp_path):
    make_result().save(tmp_path / "run")
    page = write_report([tmp_path / "run"])
    assert page == tmp_path / "run" / "report.html"
    checked(page.read_text(encoding="utf-8"))


@pytest.fixture
def two_runs(tmp_path):
    make_result().save(tmp_path / "first")
    make_result([2, 1]).save(tmp_path / "second")
    return [tmp_path / "first", tmp_path / "second"]


@pytest.mark.slow
def test_several_runs_stand_side_by_side(two_runs, tmp_path):
    page = write_report(two_runs)
    assert page == tmp_path / "comparison.html"
    text = page.read_text(encoding="utf-8")
    assert "first and second" in text
    ranks = re.search(r"<tr><td>日本</td><td class=\"number\">1</td><td class=\"number\">1</td></tr>", text)
    assert ranks, "a feature that both selected comes first, with its rank in each"


def test_runs_are_compared_by_what_they_have_in_common_as_json(two_runs):
    told = report_as_json(two_runs)
    assert told["jaccard"] == {"first": {"first": 1.0, "second": 1 / 3}, "second": {"first": 1 / 3, "second": 1.0}}
    assert told["results"]["second"]["selected"][1]["name"] == "größe"
    assert json.loads(json.dumps(told)) == told


@pytest.mark.slow
def test_runs_are_compared_by_what_they_have_in_common_on_the_page(two_runs):
    line = '<tr><td>first</td><td class="number">1.00</td><td class="number">0.33</td></tr>'
    assert line in write_report(two_runs).read_text()


@pytest.mark.slow
def test_runs_of_one_name_are_told_apart(tmp_path):
    for parent in ("a", "b"):
        make_result().save(tmp_path / parent / "run")
    text = write_report([tmp_path / "a" / "run", tmp_path / "b" / "run"], tmp_path / "page.html").read_text()
    assert f"{tmp_path}/b/run" in text


def test_a_folder_without_a_run_is_named(tmp_path):
    with refused(RunError, "run-folders", naming=["finished"]):
        load_run(tmp_path / "nowhere")
    with refused(RunError, "run-folders", naming=["result.json"]):
        write_report([tmp_path])
    assert list(tmp_path.iterdir()) == []


def test_the_passes_of_fgm_are_drawn():
    history = pd.DataFrame({"pass": [1, 2], "features": [10, 20], "objective": [5.0, 3.0], "gap": [0.9, 0.5]})
    assert "duality gap before the pass" in history_figure(history, "passes").svg
    assert history_figure(history.drop(columns="gap"), "passes") is None
    assert history_figure(history.head(0), "passes") is None


def test_the_curve_of_cross_validation_is_drawn_with_its_standard_errors():
    curve = {"features": [1, 4, 16], "mse": [3.0, 1.25, 2.0], "standard_error": [0.5, 0.25, 0.5]}
    history = pd.DataFrame({**curve, "chosen": [False, True, False], "fold_1": 1.0, "fold_2": 2.0})
    figure = history_figure(history, "cross-validation")
    assert "rows over 2 folds" in figure.text
    assert "Chosen: 4 features, mse 1.25 ± 0.25." in figure.text
    assert "Best" not in figure.text
    assert history_figure(history.drop(columns="chosen"), "cross-validation") is None


def test_the_curve_of_several_methods_has_the_chosen_number_and_the_best():
    curve = {"features": [1, 4, 6000], "mse": [3.0, 1.5, 1.25], "standard_error": 0.5, "chosen": [False, True, False]}
    worse = {"best": [False, False, True], "worse_by": [1.75, 0.25, 0.0], "worse_by_error": [0.5, 0.3, 0.0]}
    figure = history_figure(pd.DataFrame(curve | worse), "cross-validation")
    assert "Chosen: 4 features" in figure.text
    assert "Best: 6,000 features, mse 1.25 ± 0.5. The chosen number is worse by 0.25 ± 0.3" in figure.text
    assert ">best<" in figure.svg


def test_a_methods_own_columns_and_learning_curve_are_shown():
    result = make_result()
    result.method, result.score_kind, result.history_kind = "mission", "weight", "rows"
    result.table["weight_x_deviation"] = 0.125
    curve = {"pass": [1, 1, 2], "rows_seen": [10, 20, 30], "mean_loss": [0.7, 0.5, 0.4]}
    result.history = type(result.table).from_dict(curve)
    page = render_report("learnt", {"mission": result})
    assert "weight x deviation" in page
    assert "0.125" in page
    assert "Progressive validation" in page
    assert "Absolute weight before the refit." in page
    assert "subsets whose model" not in page


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_says_of_its_scores_and_history_the_report_knows(method):
    selector = find_method(method)()
    assert selector.score_kind in SCORE_KINDS
    assert selector.history_kind in {*HISTORIES, ""}


def sized(method, n_features, accuracy, **parameters):
    table = selection_table(range(n_features), np.ones(n_features), np.ones(n_features))
    asked = {"n_features_to_select": n_features, **parameters}
    changes = {"method": method, "table": table, "parameters": asked, "metrics": {"accuracy": accuracy, "auc": 0.5}}
    return make_result(**changes, feature_names=None, n_features=9)


@pytest.mark.slow
def test_a_metric_is_shown_against_the_number_of_features_with_a_line_for_each_method_and_setting():
    results = {
        f"{method}-{size}-{debias}": sized(method, size, accuracy + debias / 16, debias=debias, C=1.0 / size)
        for method, accuracy in (("fgm", 0.25), ("$l1_$", 0.75))
        for debias in (True, False)
        for size in (4, 2)
    }
    page = render_report("sizes", results)
    checked(page)
    assert page.count("against the number of features</h2>") == 2
    assert page.count('<svg role="img" aria-label="One line for each method and its settings, from 2 to 4') == 2
    section = page[page.index("<h2>accuracy against") : page.index("<h2>auc against")]
    rows = re.findall(r"<tr>(.*?)</tr>", section)
    assert [re.findall(r">([^<]+)<", row) for row in rows] == [
        ["selected features", "2", "4"],
        ["fgm, debias = True", "0.312", "0.312"],
        ["fgm, debias = False", "0.25", "0.25"],
        ["$l1_$, debias = True", "0.812", "0.812"],
        ["$l1_$, debias = False", "0.75", "0.75"],
    ]
    drawn = section[: section.index("</svg>")]
    assert all(f">{name}</text>" in drawn for name in ("fgm, debias = True", "$l1_$, debias = False"))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([{"C": 1.0}, {"C": 2.0}, {"C": 3.0}], ["fgm"]),
        ([{"C": 1.0}, {"C": 1.0}, {"C": 2.0, "size": 2}], ["fgm, C = 1", "fgm, C = 2"]),
        ([{"loss": "a", "C": 0.1}, {"loss": "b", "C": 0.4, "size": 2}], ["fgm, loss = a", "fgm, loss = b"]),
        ([{"validation": None}, {"validation": 0.2}], ["fgm, validation = None", "fgm, validation = 0.2"]),
    ],
)
def test_lines_are_told_apart_by_words_and_by_numbers_only_at_the_same_size(settings, names):
    found = {}
    for k, options in enumerate(settings):
        options = {"size": k + 2, **options}
        found[f"{k}"] = sized("fgm", options.pop("size"), 0.5, **options)
    found["other"], found["another"] = sized("x", 2, 0.5), sized("x", 3, 0.5)
    assert list(lines_by_size(found))[:-1] == names


@pytest.mark.slow
def test_no_metric_is_shown_by_size_where_there_is_nothing_to_compare():
    two = {"a": sized("fgm", 2, 0.5), "b": sized("l1", 2, 0.5)}
    assert "against the number" not in render_report("one size", two)
    two["b"] = sized("fgm", 3, 0.5)
    assert "against the number" in render_report("two sizes", two)
    two["b"].store_digest = "another"
    assert "against the number" not in render_report("two stores", two)
    two["b"] = sized("fgm", 3, float("nan"))
    checked(render_report("not defined", two))
    two["b"] = make_result()
    assert "against the number" not in render_report("as many as there are", two)


def test_what_features_are_made_of_is_a_table_of_its_own():
    """Names as text, and rows of features with one parent and with two."""
    parents = [[Parent(EVIL, 0.25, 1), Parent("größe", 0.0, 1204)], [Parent("日本", None, 2)]]
    table = selection_table([2, 0], [1.0, 1.0], [1.0, 0.7], NAMES).assign(**columns_of_parents([0.5, 0.125], parents))
    page = render_report("power", {"fgm": make_result(table=table)})
    checked(page)
    section = page.partition("<h2>Columns of the products</h2>")[2].partition("<h2>")[0]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", section)]
    assert rows[0] == ["feature", "its score", *["column", "score alone", "rank alone"] * 2]
    assert rows[1][1:] == ["0.5", str(escape(EVIL)), "0.25", "1", "größe", "0", "1,204"]
    assert rows[2][1:] == ["0.125", "日本", "", "2", "", "", ""]
    assert "parent 1" not in page


def test_intervals_of_coefficients_stand_beside_them():
    result = make_result()
    ends = {"lower": np.linspace(0.5, 1.5, len(result.table)), "upper": 2.25}
    result.table = result.table.assign(std_error=0.5, **ends)
    result.table.loc[0, "lower"] = np.nan
    page = render_report("intervals", {"message": result})
    checked(page)
    assert "95 % interval" in page
    assert "1.5 to 2.25" in page
    assert page.count("to 2.25") == len(result.table) - 1, "a coefficient without a standard error has none"
    assert "std error" in page
    assert ">lower<" not in page


def result_of_test(metric, value, drawn, rows="the same"):
    result = make_result(metrics={metric: value})
    record = QualityRecord(40, "0", {}, {}, [], [], [], [], [], "", [], [], rows, {metric: drawn})
    result.evidence = EvidenceRecord(DataRecord("s", "y", None, "20%", 1, None, None, None), test=record)
    return result


def drawn_metrics(seed, *shifts, noise=0.01):
    rng = np.random.default_rng(seed)
    shared = rng.normal(scale=0.1, size=300)
    return [(shared + shift + rng.normal(scale=noise, size=300)).tolist() for shift in shifts]


@pytest.mark.slow
def test_runs_of_the_same_test_rows_are_compared_in_pairs():
    a, b, c = drawn_metrics(0, 0.80, 0.79, 0.60)
    results = {
        "a": result_of_test("r2", 0.80, a),
        "b": result_of_test("r2", 0.79, b),
        "c": result_of_test("r2", 0.60, c),
    }
    near, far = differences(results)
    assert (near.best, near.label, near.is_noise, far.label, far.is_noise) == ("a", "b", True, "c", False)
    assert near.difference == pytest.approx(-0.01)
    assert far.high - far.low < 0.1, "the rows' noise is common to both, a tenth wide each"
    assert sentences([near, far]) == [
        "r2: a is best; not significantly different on these rows: b; significantly worse: c (by 0.2)"
    ]
    page = render_report("compared", results)
    checked(page)
    assert "Significant differences" in page
    assert sentences([near, far])[0] in page
    assert "Significant differences" not in render_report("before", {"a": make_result(), "b": make_result()})


def test_errors_are_better_where_they_are_smaller_and_other_rows_are_not_compared():
    a, b = drawn_metrics(1, 1.0, 2.0)
    results = {
        "a": result_of_test("mse", 1.0, a),
        "b": result_of_test("mse", 2.0, b),
        "c": result_of_test("mse", 0.1, a, rows="others"),
    }
    (only,) = differences(results)
    assert (only.best, only.label, only.is_noise) == ("a", "b", False)
    assert differences({"a": result_of_test("mse", 1.0, a)}) == []
    assert differences({"a": make_result(), "b": make_result()}) == []


@pytest.mark.slow
def test_equal_runs_seldom_differ_by_more_than_noise_however_many():
    """Of 60 comparisons of five equal ones, in at most one of twenty the best is told from any: 3 are expected."""
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        errors = rng.standard_normal((5, 200)) ** 2
        rows = [np.random.default_rng(k).integers(0, 200, 200) for k in range(300)]
        results = {
            str(k): result_of_test("mse", float(one.mean()), [float(one[at].mean()) for at in rows])
            for k, one in enumerate(errors)
        }
        wrong += any(not one.is_noise for one in differences(results))
    assert wrong <= 8

"""Export a run's model as a list of names, an SQL SELECT, or a Python file that builds a scikit-learn pipeline.

SQL and Python contain the whole model: the encoding of raw columns, the linear predictor, and the predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pprint import pformat
from typing import Any

from daskfs import errors
from daskfs.applied.model import Model
from daskfs.losses import find_loss
from daskfs.sources.encoders.base import MISSING, OTHER, Encoder
from daskfs.sources.encoders.category import CategoryEncoder
from daskfs.sources.encoders.number import NumberEncoder
from daskfs.sources.encoders.sql import quoted, signed, text_of
from daskfs.sources.table_encoder import TableEncoder

ConfigError = errors.ConfigError.about("new-rows")

FORMS = ("list", "columns", "sql", "sklearn")
DIALECTS = ("standard", "sqlite")


def export(model: Model, form: str, *, table: str = "data", dialect: str = "standard") -> str:
    """Return a model as text.

    Parameters
    ----------
    model : Model
    form : {"list", "columns", "sql", "sklearn"}
        Names of the features, most important first; names of their raw columns; a SELECT; a Python file.
    table : str
        Name of the table in SQL.
    dialect : {"standard", "sqlite"}
        SQL dialect for parts of dates.

    Raises
    ------
    ConfigError
        The features cannot be exported in this form, such as hashed features in SQL.
    """
    if form == "list":
        return "".join(f"{name}\n" for name in model.ranking)
    if form == "columns":
        return "".join(f"{name}\n" for name in _Raw(model).needed)
    if form == "sql":
        return _sql(model, table, dialect)
    if form == "sklearn":
        return _scikit_learn(model)
    raise ConfigError(f"expected one of {', '.join(FORMS)}, found {form!r}", "--as")


class _Raw:
    """The columns of X that a model reads, each with its raw column and encoder.

    Raises
    ------
    ConfigError
        The features were not encoded from columns of a table.
    """

    def __init__(self, model: Model) -> None:
        encoder, wanted = model.document["encoder"], model.columns.numbers.tolist()
        self.ids: list[str] = []
        if encoder["kind"] == "table":
            table = TableEncoder.from_document(encoder["table"])
            self.ids = [name for name, column in table.columns.items() if column.role == "id"]
            self.columns = table.columns
            owners = {k: (name, start) for name, (start, stop) in table.spans.items() for k in range(start, stop)}
            self.made = [(owners[k][0], table.encoders[owners[k][0]], k - owners[k][1]) for k in wanted]
        elif encoder["kind"] == "one_hot":
            table = TableEncoder.from_document(encoder["of"]["table"])
            self.ids = [name for name, column in table.columns.items() if column.role == "id"]
            self.made = [_entry_of(name, table) for name in model.columns.names]
        elif model.columns.ids is None:  # an array of numbers
            self.made = [(name, NumberEncoder(name), 0) for name in model.columns.names]
        else:
            raise ConfigError(
                "the features are hashed and have no columns of a table",
                "--as",
                "use --as list for their names, and `daskfs apply` to predict",
            )
        self.needed = list(dict.fromkeys(name for name, _, _ in self.made))


def _entry_of(feature: str, table: TableEncoder) -> tuple[str, Encoder, int]:
    """Return column, encoder and position of a feature (``column=level`` or a number) of a sparsely encoded table.

    Raises
    ------
    ConfigError
        The feature is a bin of a number, or pooled rare levels, which are not listed.
    """
    for name in table.feature_columns:
        encoder = table.encoders.get(name)
        if encoder is not None and feature in encoder.feature_names:
            return name, encoder, encoder.feature_names.index(feature)
        is_open = encoder is None and table.columns[name].resolved_encoding == "category"
        if is_open and feature.startswith(f"{name}="):
            level = feature.removeprefix(f"{name}=")
            if name in table.levels and level == OTHER:
                break
            missing = table.columns[name].missing
            levels = [] if level == MISSING and missing == "category" else [level]
            return name, CategoryEncoder(name, levels, unseen="zero", missing=str(missing)), 0
    problem = f"feature {feature!r} is a bin or pooled rare levels, whose contents are not listed"
    raise ConfigError(problem, "--as", "use --as list for its name, and `daskfs apply` to predict")


# ---------------------------------------------------------------------------------------------------------------- SQL


def _sql(model: Model, table: str, dialect: str) -> str:
    """Return a SELECT of ids, features and prediction."""
    if dialect not in DIALECTS:
        raise ConfigError(f"expected one of {', '.join(DIALECTS)}, found {dialect!r}", "--dialect")
    raw = _Raw(model)
    columns = [
        _expressed(name, encoder.sql(place, dialect), "sql", "`daskfs apply`") for name, encoder, place in raw.made
    ]
    features = _sql_features(model, columns)
    ids = [quoted(name) for name in raw.ids]
    selected = [*ids, *(f"{text} AS {quoted(name)}" for name, text in zip(model.features, features, strict=True))]
    scores = _sql_scores(model)
    summed = [f"{text} AS {quoted(name)}" for name, text in scores.items()]
    listed = ",\n    ".join
    return (
        f"-- {model.method}: {len(model.features)} features, "
        f"by daskfs; its numbers equal those of daskfs apply up to rounding.\n"
        f"WITH features AS (\n  SELECT\n    {listed(selected or ['1 AS one'])}\n  FROM {quoted(table)}\n),\n"
        f"scores AS (\n  SELECT\n    {listed(['*', *summed])}\n  FROM features\n)\n"
        f"SELECT\n    {listed(['*', *_sql_answers(model, list(scores))])}\nFROM scores\n"
    )


def _expressed(name: str, found: str | None, form: str, instead: str) -> str:
    """Return the expression of a feature, or refuse an encoding that has none."""
    if found is None:
        raise ConfigError(f"column {name!r} is hashed, which only daskfs supports", f"--as {form}", f"use {instead}")
    return found


def _sql_features(model: Model, columns: Sequence[str]) -> list[str]:
    """Return the expressions of the features from those of their columns."""
    made = model.document["made"]
    if made is None:
        return list(columns)
    if made["kind"] != "products":
        raise ConfigError("SQL export does not support additive feature maps", "--as sql", "use `daskfs apply`")
    place = {j: k for k, j in enumerate(sorted({j for pair in made["pairs"] for j in pair if j >= 0}))}
    about = [f"({text} - {signed(centre)})" for text, centre in zip(columns, made["centre"], strict=True)]
    return [columns[place[i]] if j < 0 else f"{about[place[i]]} * {about[place[j]]}" for i, j in made["pairs"]]


def _sql_scores(model: Model) -> dict[str, str]:
    """Return the linear predictors by name: one, or one for each class."""
    predictor, names = model.predictor, [quoted(name) for name in model.features]
    if predictor.coef.ndim == 1:
        return {"score": _sum_of(float(predictor.intercept), predictor.coef.tolist(), names)}
    assert model.classes is not None
    return {
        f"score_{label}": _sum_of(intercept, coef, names)
        for label, intercept, coef in zip(
            model.classes, predictor.intercept.tolist(), predictor.coef.T.tolist(), strict=True
        )
    }


def _sum_of(intercept: float, coef: Sequence[float], names: Sequence[str]) -> str:
    """Return a sum nested as a balanced tree, because SQL parsers limit the depth of expressions."""
    terms = [signed(intercept), *(f"{signed(c)} * {name}" for c, name in zip(coef, names, strict=True))]
    while len(terms) > 1:
        pairs = [terms[k : k + 8] for k in range(0, len(terms), 8)]
        terms = [" + ".join(some) if len(pairs) == 1 or len(some) == 1 else f"({' + '.join(some)})" for some in pairs]
    return terms[0]


def _sql_answers(model: Model, scores: Sequence[str]) -> list[str]:
    """Return the prediction and the probabilities from the scores."""
    if model.classes is None:
        is_count = find_loss(model.loss).target == "count"
        return [f'{"EXP(" if is_count else ""}"score"{")" if is_count else ""} AS prediction']
    labels = [_literal(label) for label in model.classes.tolist()]
    if len(scores) == 1:
        found = [
            f'CASE WHEN "score" IS NULL THEN NULL WHEN "score" > 0 THEN {labels[1]} ELSE {labels[0]} END AS prediction'
        ]
        if model.has_probabilities:
            found.append(f'1.0 / (1.0 + EXP(-"score")) AS {quoted(f"probability_{model.classes[1]}")}')
        return found
    names = [quoted(score) for score in scores]
    largest = [
        " AND ".join(f"{name} >= {other}" for other in names if other != name) + f" THEN {label}"
        for name, label in zip(names, labels, strict=True)
    ]
    return ["CASE WHEN " + " WHEN ".join(largest) + " END AS prediction"]


def _literal(label: Any) -> str:
    return text_of(label) if isinstance(label, str) else repr(label)


# ------------------------------------------------------------------------------------------------------- scikit-learn

_HEAD = '''"""{method}: {n} features that daskfs selected{target}, as a scikit-learn pipeline.

    pipeline = build()               # with the coefficients of the run: pipeline.predict(frame)
    pipeline = build(fitted=False)   # the same features, not fitted yet: pipeline.fit(frame, y)
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import {classes}
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

FEATURES = {features}
COEF = np.array({coef})
INTERCEPT = {intercept}
CLASSES = {labels}


def number(column, fill=None, centre=0.0, scale=1.0):
    """Return standardised numbers, with missing values filled."""
    values = pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)
    return ((values if fill is None else np.where(np.isnan(values), fill, values)) - centre) / scale


def text(column):
    """Return values as text like in a file: true or false, integers without decimals; None if missing."""
    def one(value):
        if pd.isna(value):
            return None
        if isinstance(value, (bool, np.bool_)):
            return next((word for word in TRUTH if word.lower() == str(value).lower()), str(value).lower())
        return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)

    return np.array([one(value) for value in column], dtype=object)


def part(column, date_format, name):
    """Return a part of dates; NaN if missing."""
    dates = column
    if not pd.api.types.is_datetime64_any_dtype(column):
        several = [pd.to_datetime(column, format=one.strip(), errors="coerce") for one in date_format.split("|")]
        dates = several[0]
        for other in several[1:]:
            dates = dates.fillna(other)
        if (dates.isna() & column.notna()).any():
            raise ValueError("%s: expected dates like %s" % (column.name, date_format))
    return getattr(dates.dt, name).to_numpy(dtype=float, na_value=np.nan)


def counts(texts, known, missing):
    """Return the number of training rows with each level."""
    return np.array([missing if one is None else known.get(one, 0) for one in texts], dtype=float)


TRUTH = {truth}


def features(frame):
    """Return the selected features of a data frame, shape (n_rows, {n})."""
    X = np.column_stack(
        [
{columns}
        ]
    ).astype(np.{dtype}).astype(float)
    return {made}


def build(fitted=True):
    """Return the pipeline."""
    model = {model}
    if fitted:
{fit}
    names = FunctionTransformer(features, feature_names_out=lambda *_: np.array(FEATURES, dtype=object))
    return Pipeline([("features", names), ("model", model)])
'''


def _scikit_learn(model: Model) -> str:
    """Return a Python file that builds a scikit-learn pipeline."""
    raw = _Raw(model)
    lines = [
        f"            {_expressed(name, encoder.python(place), 'sklearn', 'daskfs.load')},  # {feature!r}"
        for (name, encoder, place), feature in zip(raw.made, model.columns.names, strict=True)
    ]
    name, make, fit = _estimator(model)
    truth = sorted({text for _, one, _ in raw.made for text in one.classes or ()})
    predictor = model.predictor
    intercept = predictor.intercept if predictor.coef.ndim == 1 else predictor.intercept.tolist()
    return _HEAD.format(
        method=model.method,
        n=len(model.features),
        target="" if model.target is None else f" for {model.target!r}".replace('"""', "'''").replace("\\", "\\\\"),
        classes=name,
        features=pformat(model.features, width=110),
        coef=pformat(predictor.coef.T.tolist(), width=110),
        intercept=repr(intercept),
        labels=repr(None if model.classes is None else model.classes.tolist()),
        truth=repr([word for word in truth if word.lower() in ("true", "false")]),
        columns="\n".join(lines),
        dtype="float32" if model.columns.dtype == "float32" else "float64",
        made=_python_made(model),
        model=make,
        fit="\n".join(f"        {line}" for line in fit),
    )


def _python_made(model: Model) -> str:
    made = model.document["made"]
    if made is None:
        return "X"
    if made["kind"] != "products":
        raise ConfigError("export does not support additive feature maps", "--as sklearn", "use daskfs.load")
    place = {j: k for k, j in enumerate(sorted({j for pair in made["pairs"] for j in pair if j >= 0}))}

    def about(j: int) -> str:
        return f"(X[:, {place[j]}] - {signed(made['centre'][place[j]])})"

    columns = [f"X[:, {place[i]}]" if j < 0 else f"{about(i)} * {about(j)}" for i, j in made["pairs"]]
    return f"np.column_stack([{', '.join(columns)}])"


def _estimator(model: Model) -> tuple[str, str, list[str]]:
    """Return a scikit-learn class, the code that constructs it, and the code that sets the coefficients."""
    fit = ["model.n_features_in_ = len(FEATURES)"]
    if model.classes is None:
        fit.append("model.coef_, model.intercept_ = COEF, INTERCEPT")
        if find_loss(model.loss).target == "count":
            return "PoissonRegressor", "PoissonRegressor(max_iter=1000)", [*fit, "model._base_loss = model._get_loss()"]
        return "LinearRegression", "LinearRegression()", fit
    fit.append("model.coef_, model.intercept_ = np.atleast_2d(COEF), np.atleast_1d(INTERCEPT)")
    fit.append("model.classes_ = np.array(CLASSES)")
    is_softmax = find_loss(model.document["fit"]["losses"][1]).target == "classes"
    if model.has_probabilities and (model.predictor.coef.ndim == 1 or is_softmax):
        return "LogisticRegression", "LogisticRegression()", fit
    return "SGDClassifier", 'SGDClassifier(loss="hinge")', fit  # one-vs-rest, without probabilities

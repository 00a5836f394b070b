"""Schema inference: a draft of a table schema for an unknown table, with suspicions about its columns.

Three steps: `look_at` reads the beginning of a file, `Facts` counts what each column holds, and `infer_schema` decides.
Nothing here changes data: the decisions are written to a schema that people read and change.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.errors import SchemaError, did_you_mean
from daskfs.sources.column_facts import Facts, quoted
from daskfs.sources.dates import parse_dates, years_of
from daskfs.sources.encoders.category import MAX_CATEGORIES
from daskfs.sources.sniffing import looks_like_number
from daskfs.sources.table_schema import THOUSANDS, TableFormat, by_text

TARGET_NAMES = ("target", "label", "class", "y", "outcome", "response")
RARE, FEW_CODES, MANY_LEVELS = 10, 30, 50
_MOST_ODD, _MOST_PAIRS, _MOST_TEXTS = 5, 20_000, 1_000
_WORDS_OF_TEXT = 4
_MOSTLY = 0.9
"""Minimum share of numbers for a column to be numeric with stray texts."""
_LEAK = 0.999
_ID = re.compile(r"(^|[\W_])(id|uuid|guid|key|index|rowid|row|nr)$|[a-z]I[Dd]$|^unnamed", re.IGNORECASE)
_CODE = re.compile(
    r"(^|[\W_])(code|zip|zipcode|plz|postal|type|kind|class|category|region|state|status|cluster)s?$|(Code|Type|Class)$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(^|[\W_])(num|number|no|nr)$|(Num|Number|No|Nr)$")
_YES_NO = {frozenset(pair) for pair in (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("on", "off"))}


@dataclass
class InferredColumn:
    """A column with its inferred schema entry.

    Attributes
    ----------
    name : str
    entry : dict
        Entry of the table schema.
    why : str
    suspicions : list of str
        What the user should check.
    """

    name: str
    entry: dict[str, Any]
    why: str
    suspicions: list[str] = field(default_factory=list)


@dataclass
class InferredSchema:
    """A table with its inferred schema.

    Attributes
    ----------
    columns : list of InferredColumn
    target, why_target : str
    n_rows : int
        Number of rows that were examined.
    missing_texts : list of str
        Unusual texts among numbers, which are treated as missing values.
    """

    columns: list[InferredColumn]
    target: str
    why_target: str
    n_rows: int
    missing_texts: list[str] = field(default_factory=list)

    @property
    def suspicions(self) -> list[str]:
        """What the user should check, each text once with its columns."""
        return by_text({one.name: one.suspicions for one in self.columns})

    @property
    def n_features(self) -> int:
        """Approximate number of features."""
        return sum(one.entry.get("role", "feature") == "feature" for one in self.columns)


def has_encoding(kind: pa.DataType) -> bool:
    """Return whether values of a type can become features: not lists, records, durations, intervals and the like."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_other = pa.types.is_nested(kind) or pa.types.is_duration(kind) or isinstance(kind, pa.BaseExtensionType)
    return not (is_other or pa.types.is_interval(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def infer_schema(columns: Mapping[str, pa.Array], layout: TableFormat, target: str | None = None) -> InferredSchema:
    """Infer the role and type of each column, and report what is suspicious.

    Parameters
    ----------
    columns : mapping of str to Arrow array
        The rows to examine.
    layout : TableFormat
    target : str, optional
        By default the column with a typical name ("target", "label", "class", ...), otherwise the last one.

    Raises
    ------
    SchemaError
        The target does not exist, or cannot be predicted.
    """
    facts = {
        name: Facts(name, values if has_encoding(values.type) else pa.nulls(len(values)), layout)
        for name, values in columns.items()
    }
    for name, one in facts.items():
        if (signs := _signs_of_column(one)) is not None:
            facts[name] = Facts(name, columns[name], layout.model_copy(update=signs))
    chosen, why = _choose_target(list(facts), target)
    inferred = InferredSchema([], chosen, why, next(iter(facts.values())).n)
    seen: dict[bytes, dict[tuple[str, bytes], str]] = {}
    for name, one in facts.items():
        if name == chosen:
            column = _infer_target(one, inferred.missing_texts)
        else:
            column = _infer_feature(one, inferred.missing_texts)
            if not has_encoding(found := columns[name].type):
                column.why = f"ignored: {found} is not a number, text or date"
                column.suspicions = [f"has values of type {found}: convert them to numbers or text to use it"]
            _compare(one, column, seen)
            if column.entry.get("role", "feature") == "feature":
                column.suspicions += _leaks(one, facts[chosen])
        is_number = column.entry.get("dtype", "number") in ("number", "percent", "currency")
        if is_number and column.entry.get("role", "feature") in ("feature", "target"):
            signs = {"decimal": one.layout.decimal, "thousands": one.layout.thousands}
            column.entry |= {key: sign for key, sign in signs.items() if sign != getattr(layout, key)}
        inferred.columns.append(column)
    if inferred.n_features == 0:
        raise SchemaError("no column can be used as a feature", chosen, "check the delimiter and the header")
    return inferred


def _signs_of_column(one: Facts) -> dict[str, str] | None:
    """Return the decimal and thousands signs that parse most of a column, if the table's own parse fewer values."""
    if not one.is_text or not one.n_present or one.share_of_numbers >= _MOSTLY:
        return None
    some = [str(text) for text in one.distinct.slice(0, _MOST_TEXTS).to_pylist()]
    if sum(map(looks_like_number, some)) < _MOSTLY * len(some):
        return None
    tried = [
        {"decimal": decimal, "thousands": thousands}
        for decimal in (".", ",")
        for thousands in THOUSANDS
        if thousands != decimal
    ]
    shares = [Facts(one.name, one.values, one.layout.model_copy(update=signs)).share_of_numbers for signs in tried]
    best = int(np.argmax(shares))
    return tried[best] if shares[best] >= _MOSTLY else None


def _choose_target(names: Sequence[str], target: str | None) -> tuple[str, str]:
    if target is not None:
        if target not in names:
            raise SchemaError(
                f"the target {target!r} is not a column of the table{did_you_mean(target, names)}",
                "target",
                f"the columns are {', '.join(map(repr, names[:12]))}",
            )
        return target, "as requested"
    for wanted in TARGET_NAMES:
        for name in names:
            if name.strip().lower() == wanted:
                return name, "chosen by its name; set target (--target) to choose another"
    return names[-1], "chosen as the last column; set target (--target) to choose another"


def _infer_target(one: Facts, missing_texts: list[str]) -> InferredColumn:
    entry: dict[str, Any] = {"role": "target"}
    suspicions: list[str] = []
    if one.n_missing:
        entry["missing"] = "drop"
    lost = f"; rows without it are dropped ({_share(one.n_missing, one.n)})" if one.n_missing else ""
    if one.n_present == 0 or len(one.distinct) < 2:
        raise SchemaError(
            "expected a target with at least two values", f"column '{one.name}'", "choose another target (--target)"
        )
    n_odd = one.n_present - round(one.share_of_numbers * one.n_present)
    is_mostly_number = one.share_of_numbers >= _MOSTLY and len(one.distinct) - len(one.odd) > FEW_CODES
    if n_odd > 0 and is_mostly_number:
        what = f"{n_odd:,} of {one.n_present:,} values of '{one.name}' {'is' if n_odd == 1 else 'are'} not a number"
        if len(one.odd) > _MOST_ODD:
            raise SchemaError(
                f"{what}: the first is {one.first_odd()}",
                f"column '{one.name}'",
                "fix them, or choose another target (--target)",
            )
        missing_texts += [text for text in one.odd if text not in missing_texts]
        entry["missing"] = "drop"
        lost = f"; rows without it are dropped ({_share(one.n_missing + n_odd, one.n)})"
        suspicions.append(
            f"{what}: {one.first_odd()}; {', '.join(map(repr, one.odd))} count as missing values (format.missing), "
            "and their rows are dropped"
        )
    if (one.share_of_numbers == 1.0 or is_mostly_number) and not one.has_leading_zeros:
        suspicions += _of_currencies(one)
        entry |= one.notation
        if one.is_whole and len(one.distinct) <= 2:
            return InferredColumn(one.name, entry, f"two classes{lost}", suspicions)
        column = InferredColumn(one.name, entry, f"numbers from {_range(one)}{lost}", suspicions)
        if one.is_whole and len(one.distinct) <= FEW_CODES:
            column.suspicions.append(
                f"the target has {len(one.distinct)} different integers: if they are classes, write dtype: string"
            )
        return column
    entry["dtype"] = "string"
    if 2 * len(one.distinct) > one.n_present:
        raise SchemaError(
            f"expected numbers or classes as target, found {len(one.distinct):,} texts in {one.n_present:,} rows",
            f"column '{one.name}'",
            "choose another target (--target)",
        )
    return InferredColumn(one.name, entry, f"{len(one.distinct)} classes{lost}")


def _infer_feature(one: Facts, missing_texts: list[str]) -> InferredColumn:
    name = one.name
    if one.n_present == 0:
        return InferredColumn(name, {"role": "ignore"}, "ignored: it has no value", ["has no value in any row"])
    if len(one.distinct) == 1 and not one.n_missing:
        return InferredColumn(
            name, {"role": "ignore"}, f"ignored: it is {quoted(one.distinct[0])} in all rows", ["is constant"]
        )
    if one.share_of_numbers < 1.0 and (found := one.date()) is not None:
        return _infer_date(one, *found)
    odd_is_missing = one.share_of_numbers >= _MOSTLY and 0 < len(one.odd) <= _MOST_ODD
    if odd_is_missing or one.share_of_numbers == 1.0:
        return _infer_number(one, missing_texts)
    return _infer_text(one)


def _infer_number(one: Facts, missing_texts: list[str]) -> InferredColumn:
    name, n_distinct = one.name, len(one.distinct)
    if one.is_whole and n_distinct == one.n_present and one.n_present > 50:
        steps = np.diff(one.numbers[~np.isnan(one.numbers)])
        if bool(np.all(steps == 1)) or (_ID.search(name) and not one.notation):
            return InferredColumn(
                name, {"role": "id"}, "an identifier: a different integer in each row", ["is an identifier"]
            )
    if one.has_leading_zeros or (one.is_whole and _CODE.search(name) and 2 < n_distinct <= MAX_CATEGORIES):
        reason = "digits with leading zeros" if one.has_leading_zeros else "integers in a column with this name"
        column = _category(one, f"{reason}, treated as codes: ")
        column.suspicions.append("integers treated as codes; set dtype: number if they are counts or measurements")
        return column
    entry: dict[str, Any] = {**one.notation}
    signs = {"percent": " with percent signs", "currency": " written as amounts of money"}
    why = f"numbers from {_range(one)}" + signs.get(entry.get("dtype", ""), "")
    suspicions = _of_currencies(one)
    if odd := one.odd:
        missing_texts += [text for text in odd if text not in missing_texts]
        listed = ", ".join(map(repr, odd))
        suspicions.append(f"{listed} among numbers ({one.first_odd()}): treated as missing values (format.missing)")
    n_missing = int(np.isnan(one.numbers).sum())
    if n_missing:
        entry |= {"missing": "mean", "missing_indicator": True}
        why += f"; {_share(n_missing, one.n)} missing: replaced by the mean, with an indicator feature"
    known = one.numbers_of_distinct[~np.isnan(one.numbers_of_distinct)]
    is_dense = one.is_whole and 2 < n_distinct <= FEW_CODES and known.min() >= 0 and known.max() < 2 * n_distinct
    if is_dense and one.n_present > 20 * n_distinct and not one.notation:
        suspicions.append("few different integers: if they are codes of a category, set dtype: string")
    elif one.is_whole and _NUMBERED.search(name):
        suspicions.append("integers in a column with this name: if they are names, set dtype: string or role: ignore")
    outlier = next((value for value in (-999.0, -9999.0, 9999.0, 99999.0) if value in known), None)
    if outlier is not None and outlier in (known.min(), known.max()):
        suspicions.append(f"{outlier:.0f} may mean a missing value: if so, add it to format.missing")
    return InferredColumn(name, entry, why, suspicions)


def _of_currencies(one: Facts) -> list[str]:
    if one.notation.get("dtype") != "currency" or len(found := one.currencies) < 2:
        return []
    return [f"has amounts in {', '.join(found)}, treated as numbers in one unit: convert them, or set role: ignore"]


def _infer_text(one: Facts) -> InferredColumn:
    column = _infer_levels(one)
    if one.share_of_numbers < _MOSTLY:
        return column
    odd = (
        f"most values are numbers, but {len(one.odd):,} texts are not, such as {one.first_odd()}: fix them, "
        "or add them to format.missing and set dtype: number"
    )
    if column.entry.get("role") in ("id", "ignore"):  # numbers are hardly ever twice, whether or not they identify rows
        return InferredColumn(one.name, {"role": "ignore"}, "ignored: numbers with other texts among them", [odd])
    column.suspicions.append(odd)
    return column


def _infer_levels(one: Facts) -> InferredColumn:
    name, n_distinct = one.name, len(one.distinct)
    is_mostly_unique = 2 * n_distinct > one.n_present and n_distinct > RARE
    if is_mostly_unique and one.words >= _WORDS_OF_TEXT:
        reason = f"ignored: free text of about {one.words:.0f} words"
        return InferredColumn(
            name, {"role": "ignore"}, reason, ["is free text; use kind: text to get words as features"]
        )
    if is_mostly_unique and n_distinct > MANY_LEVELS:
        found = f"{n_distinct:,} different texts in {one.n_present:,} rows"
        if n_distinct == one.n_present or _ID.search(name):
            return InferredColumn(name, {"role": "id"}, f"an identifier: {found}", ["is an identifier"])
        return InferredColumn(name, {"role": "ignore"}, f"ignored: {found}", [f"{found}: too many for a category"])
    return _category(one, "")


def _category(one: Facts, why: str) -> InferredColumn:
    entry: dict[str, Any] = {"dtype": "string"}
    n_levels = len(one.distinct)
    shown = ", ".join(quoted(one.distinct[int(k)]) for k in np.argsort(-one.counts, kind="stable")[:3])
    why += f"a category of {n_levels:,} levels ({shown}{', ...' if n_levels > 3 else ''})"
    if n_levels == 2 and not one.n_missing:
        entry["drop_first"] = True
        texts = frozenset(str(text).lower() for text in one.distinct.to_pylist())
        why = f"{'yes or no' if texts in _YES_NO else 'two levels'} ({shown}), one feature"
    if one.n_missing:
        entry["missing"] = "category"
        why += f"; {_share(one.n_missing, one.n)} missing, as a separate level"
    n_rare = int((one.counts < RARE).sum())
    if n_levels > MAX_CATEGORIES:
        entry |= {"max_categories": 200, "unseen": "other"}
        why += "; the 200 most frequent are kept, the rest pooled (set one_hot: sparse in the source to keep all)"
    elif n_levels > MANY_LEVELS and 0 < n_rare < n_levels:  # otherwise only the pool would be left
        entry |= {"min_count": RARE, "unseen": "other"}
        why += f"; {n_rare:,} with fewer than {RARE} rows pooled"
    return InferredColumn(one.name, entry, why, _of_levels(one))


def _of_levels(one: Facts) -> list[str]:
    """Return what is suspicious about levels: very many, or some that differ only by case and blanks."""
    found, alike = [], defaultdict(list)
    for text in map(str, one.distinct.to_pylist()):
        alike[" ".join(text.split()).casefold()].append(text)
    same = [texts for texts in alike.values() if len(texts) > 1]
    if same:
        more = f", and {len(same) - 1:,} more such groups" if len(same) > 1 else ""
        found.append(
            f"{', '.join(map(repr, same[0][:4]))} differ only by case or blanks{more}: if they mean the same, use "
            f"frame[{one.name!r}] = frame[{one.name!r}].str.split().str.join(' ').str.lower() in pandas"
        )
    if len(one.distinct) > MAX_CATEGORIES:
        found.append(
            f"has {len(one.distinct):,} different texts: if they identify rows or are free text, set role: ignore; "
            "to use all, set encoding: counts instead of max_categories and unseen"
        )
    return found


def _infer_date(one: Facts, kind: str, date_format: str, others: list[str]) -> InferredColumn:
    entry: dict[str, Any] = {"dtype": kind}
    if date_format and date_format != {"date": "%Y-%m-%d", "time": "%H:%M:%S", "datetime": "%Y-%m-%d %H:%M:%S"}[kind]:
        entry["format"] = date_format
    parts: list[str] = []
    if kind != "time":
        dates = parse_dates(one.distinct, date_format)
        years = years_of(dates)
        parts += ["year"] * (1 < len(years) <= 100)
        parts += ["month", "weekday"] if len(pc.unique(pc.month(dates))) > 1 or len(years) > 1 else ["day", "weekday"]
    if kind != "date":
        parts.append("hour")
    entry["encoding"] = {"date_parts": parts}
    why = f"{kind}s such as {one.distinct[0].as_py()}: {', '.join(parts)}"
    if one.n_missing:
        entry |= {"missing": "zero", "missing_indicator": True}
        why += f"; {_share(one.n_missing, one.n)} missing, with an indicator feature"
    column = InferredColumn(one.name, entry, why)
    if "|" in date_format:
        column.suspicions.append(f"dates are written in two formats, {date_format.replace('|', 'and')}")
    if others:
        column.suspicions.append(f"dates could also have the format {others[0]!r}: if so, set format")
    return column


def _compare(one: Facts, column: InferredColumn, seen: dict[bytes, dict[tuple[str, bytes], str]]) -> None:
    """Ignore a column that duplicates an earlier one, or note that it carries the same information.

    `seen` has the earlier columns by digests, because the time must not grow with the square of the number of columns.
    """
    if column.entry.get("role") in ("ignore", "id"):
        return
    rows = hashlib.blake2b(one.codes.tobytes()).digest()  # Arrow numbers values by their first row, whatever they are
    values = pa.record_batch([one.distinct], names=[""]).serialize()
    alike, content = seen.setdefault(rows, {}), (str(one.distinct.type), hashlib.blake2b(values).digest())
    if content in alike:
        column.entry, column.why = {"role": "ignore"}, f"ignored: the same as '{alike[content]}'"
        column.suspicions = [f"is a copy of '{alike[content]}'"]
        return
    if alike and len(one.distinct) * 2 < one.n_present:
        column.suspicions.append(f"has the same information as '{next(iter(alike.values()))}': ignore one of them")
    alike[content] = one.name


def _leaks(one: Facts, target: Facts) -> list[str]:
    """Return signs that a feature leaks the target."""
    found = []
    if named_like(one.name, target.name):
        found.append(f"has a name like the target ('{target.name}'): is it known before the target?")
    rows = np.flatnonzero((one.codes >= 0) & (target.codes >= 0))[:_MOST_PAIRS]
    if len(rows) < 20:
        return found
    code, goal = one.codes[rows], target.codes[rows]
    is_class = target.share_of_numbers < 1.0 or len(target.distinct) == 2
    by_number = one.share_of_numbers == 1.0 and len(one.distinct) > 2
    if is_class:
        base = np.bincount(goal).max() / len(rows)
        share = share_by_order(one.numbers[rows], goal) if by_number else _share_by_levels(code, goal)
        if share >= _LEAK and base < 0.99:
            found.append(f"alone predicts the target in {share:.2%} of the rows: is it a copy, or known only later?")
    elif by_number:
        x, y = one.numbers[rows], target.numbers[rows]
        r = abs(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0
        if r >= _LEAK:
            found.append(f"its correlation with the target is {r:.4f}: is it a copy, or known only later?")
    return found


def named_like(name: str, target: str) -> bool:
    """Return whether a column's name contains the target's, or the reverse."""
    stem = re.sub(r"[\W_]+|^(is|has)", "", target.lower())
    plain = re.sub(r"[\W_]+", "", name.lower())
    return len(stem) >= 4 and (stem in plain or (len(plain) >= 4 and plain in stem))


def _share_by_levels(code: np.ndarray, goal: np.ndarray) -> float:
    """Return the share of rows with their level's most frequent class; 0 if there are too many levels to judge."""
    levels, code = np.unique(code, return_inverse=True)
    if len(levels) > len(code) / 10:
        return 0.0
    table = np.zeros((len(levels), int(goal.max()) + 1), np.int64)
    np.add.at(table, (code, goal), 1)
    return float(table.max(axis=1).sum()) / len(code)


def share_by_order(x: np.ndarray, goal: np.ndarray) -> float:
    """Return the share of rows that thresholds on a number classify correctly; with two classes, a single threshold."""
    in_order = goal[np.argsort(x, kind="stable")]
    if len(np.unique(goal)) != 2:
        n_changes = int((np.diff(in_order) != 0).sum())
        return 1.0 if n_changes == len(np.unique(goal)) - 1 else 0.0
    is_first = in_order == in_order[0]
    right = np.cumsum(is_first) + (~is_first).sum() - np.cumsum(~is_first)
    return float(max(right.max(), len(right) - right.min())) / len(right)


def _range(one: Facts) -> str:
    known = one.numbers_of_distinct[~np.isnan(one.numbers_of_distinct)]
    return f"{known.min():g} to {known.max():g}"


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}"

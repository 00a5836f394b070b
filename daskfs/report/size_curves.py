"""Several selections by the number of features they were asked for: one line for each method and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskfs.result import SelectionResult

ASKED = "n_features_to_select"


def lines_by_size(results: Mapping[str, SelectionResult]) -> dict[str, list[SelectionResult]]:
    """Return the results of each line, by rising number of features.

    Parameters
    ----------
    results : mapping of str to SelectionResult
        By label. Those that were not asked for a number of features are left out.

    Returns
    -------
    dict of str to list of SelectionResult
        By method, with the settings that distinguish its lines. Empty where no line has two sizes, or not all results
        are from the same data.

    Notes
    -----
    Words, booleans and None distinguish the lines of a method wherever they differ. Numbers do only where two
    selections that agree in these were asked for the same number of features: otherwise they may follow from that
    number, as a penalty does.
    """
    lines: dict[str, list[SelectionResult]] = {}
    asked = [result for result in results.values() if result.parameters.get(ASKED) is not None]
    if len({(result.store_digest, result.n_samples, result.n_features) for result in asked}) > 1:
        return {}
    for method in dict.fromkeys(result.method for result in asked):
        family = [(result, result.to_record(0).parameters) for result in asked if result.method == method]
        names = _distinguishing([parameters for _, parameters in family])
        for result, parameters in family:
            settings = [f"{name} = {_shown(parameters.get(name))}" for name in names]
            lines.setdefault(", ".join([method, *settings]), []).append(result)
    for line in lines.values():
        line.sort(key=lambda result: len(result.table))
    has_path = any(len({len(result.table) for result in line}) > 1 for line in lines.values())
    return lines if has_path else {}


def _distinguishing(parameters: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the parameters by which selections of one method fall into lines."""
    known = [name for name in dict.fromkeys(name for found in parameters for name in found) if name != ASKED]
    is_words = {name: not all(_is_number(found.get(name)) for found in parameters) for name in known}
    words = [name for name in known if is_words[name] and len({_shown(found.get(name)) for found in parameters}) > 1]
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for found in parameters:
        alike.setdefault((found[ASKED], *(_shown(found.get(name)) for name in words)), []).append(found)
    numbers = [
        name
        for name in known
        if not is_words[name] and any(len({found[name] for found in same}) > 1 for same in alike.values())
    ]
    return words + numbers


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""Results by requested number of features: one line (curve) for each method and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskfs.result import SelectionResult

ASKED = "n_features_to_select"


def lines_by_size(results: Mapping[str, SelectionResult]) -> dict[str, list[SelectionResult]]:
    """Return the results of each line, sorted by number of features.

    Parameters
    ----------
    results : mapping of str to SelectionResult
        Results by label. Those without a requested number of features are left out.

    Returns
    -------
    dict of str to list of SelectionResult
        Results by method and the settings that distinguish its lines. Empty if no line has two sizes, or if the
        results are from different data.

    Notes
    -----
    Lines of a method differ in every string, Boolean or None parameter that is not constant. A numeric parameter
    distinguishes lines only if two selections that are equal in these have the same requested number of features;
    otherwise it may be tuned to that number, as a penalty is.
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
    """Return the names of the parameters that distinguish the lines of a method."""
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

"""Descriptions of steps for users, and formats of counts, speeds and times."""

from __future__ import annotations

import re
from typing import NamedTuple


class Words(NamedTuple):
    """Description of a step, and the name of its parts in the singular; "" if their number is not informative."""

    doing: str
    part: str = ""


STEPS = {
    "": Words("selecting", "pass"),
    "ingest": Words("reading the source", "row"),
    "tiles": Words("writing the store", "row"),
    "blocks": Words("writing the store", "row"),
    "verify": Words("checking checksums", "part"),
    "export": Words("exporting the store", "row"),
    "warmup": Words("compiling kernels (cached for later runs)"),
    "survey": Words("scanning the data"),
    "report": Words("writing the report"),
    "evaluate": Words("predicting the test rows", "row"),
    "select": Words("selecting", "part"),
    "ahead": Words("selecting in passes that fits share", "part"),
    "apply": Words("predicting", "row"),
    "refit": Words("fitting the selected features", "part"),
    "newton": Words("fitting the selected features on all subsets", "part"),
    "train": Words("learning", "part"),
    "choice": Words("choosing among the candidates"),
    "statistics": Words("standardising columns", "block"),
    "scores": Words("scoring columns", "block"),
    "columns": Words("reading the chosen columns", "block"),
    "subproblems": Words("fitting the chosen columns"),
    "screen": Words("screening columns", "block"),
    "contribution": Words("summing contributions"),
    "moments": Words("standardising columns", "block"),
    "gram": Words("multiplying columns", "block"),
    "sums": Words("multiplying columns", "block"),
    "descent": Words("coordinate descent"),
    "stream": Words("learning", "row"),
    "read": Words("reading", "block"),
    "halves": Words("selecting on halves of the rows", "half"),
    "correlations": Words("correlating columns", "block"),
    "draws": Words("selecting among columns and knockoffs", "draw"),
    "factors": Words("estimating common factors", "pass"),
    "loadings": Words("correlations given common factors", "block"),
    "lasso": Words("products of columns and knockoffs", "fold"),
    "what is left": Words("residuals of the Lasso", "fold"),
    "zeros": Words("counting zeros", "part"),
    "ridge": Words("fitting ridges with column elimination", "part"),
    "lasso-path": Words("following the Lasso's path", "part"),
    "windows": Words("testing variants near selected ones", "window"),
}
"""Descriptions by the last part of a step's name, such as ``scores`` of ``fgm-scores``."""

_NUMBERED = re.compile(r"(pass|epoch)-(\d+)")


def words_of(step: str) -> tuple[str, Words]:
    """Return the method of a step, if its name begins with one, and the description.

    Examples
    --------
    >>> words_of("fgm-scores")
    ('fgm', Words(doing='scoring columns', part='block'))
    >>> words_of("omp-pass-3")
    ('omp', Words(doing='pass 3 over all columns', part='block'))
    """
    if step in STEPS and step:
        return "", STEPS[step]
    method, _, name = step.partition("-")
    if numbered := _NUMBERED.fullmatch(name):
        return method, Words(f"{numbered[1]} {numbered[2]} over all columns", "block")
    return method, STEPS.get(name) or Words(name.replace("-", " "), "part")


def shown_seconds(seconds: float) -> str:
    """Format a duration.

    Examples
    --------
    >>> [shown_seconds(s) for s in (0.2, 40, 131, 9000, 200_000)]
    ['1 s', '40 s', '2 min 11 s', '2 h 30 min', '2 d 7 h']
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def shown_bytes(nbytes: float) -> str:
    """Format a number of bytes in decimal units.

    Examples
    --------
    >>> [shown_bytes(n) for n in (12, 2_140_000_000)]
    ['12 B', '2.1 GB']
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if nbytes < 999.5:
            return f"{nbytes:.1f} {unit}" if nbytes < 9.95 and unit != "B" else f"{nbytes:.0f} {unit}"
        nbytes /= 1000.0
    return f"{nbytes:.1f} PB"


def shown_count(n: float) -> str:
    """Format a count.

    Examples
    --------
    >>> [shown_count(n) for n in (950, 12_300, 4_200_000, 3.1e9)]
    ['950', '12,300', '4.2 million', '3.1 billion']
    """
    for least, word in ((1e9, "billion"), (1e6, "million")):
        if n >= least:
            return f"{n / least:.1f} {word}"
    return f"{round(n):,}"

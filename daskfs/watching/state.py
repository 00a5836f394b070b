"""The state of a run at one moment, as a line of text and as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from daskfs.watching.words import shown_bytes, shown_count, shown_seconds, words_of


@dataclass(frozen=True)
class Part:
    """A step or a part of a step, and its progress."""

    name: str
    total: int
    done: int = 0
    """Number done of `total`; may exceed it if that was an estimate."""

    @property
    def share(self) -> float | None:
        """Proportion done, 0 to 1; None if unknown."""
        return min(1.0, self.done / self.total) if self.total > 1 else None


@dataclass(frozen=True)
class Memory:
    """Memory of a process and its planned maximum, in bytes."""

    nbytes: int
    promised_nbytes: int | None = None


@dataclass(frozen=True)
class State:
    """State of a run at one moment."""

    name: str = ""
    seconds: float = 0.0
    """Seconds since the start."""
    step: Part | None = None
    step_seconds: float = 0.0
    seconds_left: float | None = None
    """Estimated remaining seconds of the step; None if unknown."""
    part: Part | None = None
    """The innermost part of the step."""
    is_compiling: bool = False
    read_nbytes: int = 0
    read_rate: float | None = None
    """Recent bytes per second."""
    row_rate: float | None = None
    """Recent rows per second."""
    objective: tuple[tuple[float, float], ...] = ()
    """Positions on the axis and values."""
    axis: str = "pass"
    n_selected: int | None = None
    selected: tuple[str, ...] = ()
    memory: Mapping[str, Memory] = field(default_factory=dict)
    dashboard: str | None = None
    """Address of the dashboard, only for the owner of the run."""

    @property
    def heading(self) -> str:
        """Current activity without speeds: ``fgm, pass 3 of 12: scoring columns, 41 %``."""
        method, doing, share = "", "", None
        if self.step is not None:
            method, words = words_of(self.step.name)
            if words.part == "pass" and self.step.total > 1:
                doing = f"pass {min(self.step.done + 1, self.step.total)} of {self.step.total}"
            else:
                doing, share = words.doing, self.step.share
        if self.part is not None and (self.step is None or self.part.name != self.step.name):
            of, words = words_of(self.part.name)
            if words.doing != doing:
                doing = f"{doing}: {words.doing}" if doing else words.doing
            method, share = method or of, self.part.share if self.part.share is not None else share
        if self.is_compiling:
            doing += ", compiling kernels (once per machine)"
        shown = "" if share is None else f", {share:.0%}".replace("%", " %")
        return f"{f'{method}, ' if method else ''}{doing or 'preparing the next step'}{shown}"

    def to_line(self) -> str:
        """Return the state as one line: ``fgm, pass 3 of 12: scoring columns, 41 %, 2.1 GB/s, 40 s left``."""
        words = [self.heading]
        if self.read_rate:
            words.append(f"{shown_bytes(self.read_rate)}/s")
        elif self.row_rate:
            words.append(f"{shown_count(self.row_rate)} rows/s")
        if self.seconds_left is not None:
            words.append(f"{shown_seconds(self.seconds_left)} left")
        else:
            words.append(f"{shown_seconds(self.step_seconds)} so far")
        return ", ".join(words)

    def memory_line(self) -> str:
        """Return the memory of each process and its planned maximum."""
        lines = []
        for name, one in self.memory.items():
            of = "" if one.promised_nbytes is None else f" of {one.promised_nbytes / 2**20:,.0f}"
            lines.append(f"{name} {one.nbytes / 2**20:,.0f}{of} MiB")
        return ", ".join(lines)

    def to_document(self) -> dict[str, Any]:
        """Return a JSON-serialisable document, which includes the line of text."""
        return {**asdict(self), "line": self.to_line()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> State:
        """Return the state from a document of `to_document`.

        Raises
        ------
        ValueError
            The document is invalid.
        """
        try:
            known = {one.name: document[one.name] for one in fields(cls)}
            for name in ("step", "part"):
                known[name] = None if known[name] is None else Part(**known[name])
            known["memory"] = {name: Memory(**one) for name, one in known["memory"].items()}
            known["objective"] = tuple((float(at), float(value)) for at, value in known["objective"])
            known["selected"] = tuple(map(str, known["selected"]))
            return cls(**known)
        except (KeyError, TypeError, AttributeError, ValueError) as fault:
            raise ValueError(f"invalid state of a run: {fault!r}") from None

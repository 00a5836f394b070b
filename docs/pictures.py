"""The pictures of "how it works": SVG drawn from a few shapes, in the colours of the page's text."""

from __future__ import annotations

from html import escape
from typing import NamedTuple


class Picture(NamedTuple):
    """Shapes on a canvas, a title, a description for readers who cannot see them, a caption."""

    width: int
    height: int
    title: str
    words: str
    shapes: str

    def html(self) -> str:
        """Return the figure, its SVG inline."""
        return (
            f'<figure class="picture"><svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(f"{self.title}. {self.words}")}" font-family="system-ui, sans-serif" font-size="13">'
            f"{self.shapes}</svg><figcaption>{escape(self.title)}</figcaption></figure>"
        )


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 13) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="currentColor">{escape(words)}</text>'


def _box(x: float, y: float, width: float, height: float, fill: str = "", opacity: float = 1.0) -> str:
    paint = f'class="{fill}" fill-opacity="{opacity}"' if fill else 'fill="none"'
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {paint} stroke="currentColor" stroke-width="1"/>'


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    head = 5 if to_x >= x else -5
    if abs(to_x - x) < 1:
        back = to_y - 6 if to_y >= y else to_y + 6
        tip = f"M{to_x - 4} {back} L{to_x} {to_y} L{to_x + 4} {back}"
    else:
        tip = f"M{to_x - head} {to_y - 4} L{to_x} {to_y} L{to_x - head} {to_y + 4}"
    return f'<path d="M{x} {y} L{to_x} {to_y} {tip}" fill="none" stroke="currentColor" stroke-width="1.5"/>'


def _tiles() -> Picture:
    shapes = []
    for row in range(4):
        for column in range(8):
            fill, opacity = ("on", 0.75) if row == 1 else ("", 1.0)
            fill, opacity = ("off", 0.75) if column == 5 else (fill, opacity)
            shapes.append(_box(120 + column * 42, 40 + row * 34, 42, 34, fill, opacity))
    shapes += [
        _text(288, 28, "columns (features)"),
        _text(108, 112, "rows", "end"),
        _text(470, 84, "a block of rows:", "start"),
        _text(470, 100, "8 tiles are read", "start"),
        _text(351, 196, "a block of columns: 4 tiles are read"),
    ]
    words = (
        "A table of numbers, cut into 4 by 8 tiles. A block of rows is one line of tiles, a block of columns "
        "is one pile of them. Each tile is a file of its own on disk, with a checksum."
    )
    return Picture(
        600, 210, "A store is cut into tiles: rows and columns are equally cheap to read", words, "".join(shapes)
    )


def _block() -> Picture:
    shapes = [
        _box(20, 50, 110, 120),
        *(_box(20, 50 + 15 * i, 110, 15, "on", 0.7 if i == 3 else 0.12) for i in range(8)),
        _text(75, 38, "store on disk"),
        _line(135, 103, 205, 103),
        _text(170, 92, "read", size=12),
        _box(210, 90, 110, 26, "on", 0.7),
        _text(265, 78, "block in memory"),
        _line(325, 103, 395, 103),
        _text(360, 92, "kernel", size=12),
        _box(400, 88, 60, 30, "off", 0.7),
        _text(430, 78, "a few numbers"),
        _line(465, 103, 535, 103),
        _text(560, 108, "combined"),
        _text(310, 195, "each worker holds two blocks: it computes with one while it reads the next"),
    ]
    words = (
        "A block, which is a few rows or columns of the store, is read into memory; a kernel makes a few "
        "numbers of it, which are joined with those of the other blocks. A worker holds two blocks, whatever "
        "the size of the store."
    )
    return Picture(620, 210, "A block: the rows or columns in memory at one time", words, "".join(shapes))


def _votes() -> Picture:
    chosen = [(1, 1, 0, 0, 1), (1, 0, 0, 1, 1), (1, 1, 0, 0, 0), (1, 1, 1, 0, 0), (0, 1, 0, 0, 1)]
    shapes = []
    names = ["age", "income", "noise 1", "noise 2", "weak"]
    for j, name in enumerate(names):
        shapes.append(_text(235 + j * 74, 28, name))
    for i, row in enumerate(chosen):
        shapes.append(_text(178, 58 + i * 30, f"subset {i + 1} of the rows", "end"))
        for j, is_chosen in enumerate(row):
            shapes.append(_box(205 + j * 74, 40 + i * 30, 60, 24, "on" if is_chosen else "", 0.35))
            shapes.append(_text(235 + j * 74, 57 + i * 30, "✓" if is_chosen else "–"))
    for j in range(5):
        total = sum(row[j] for row in chosen)
        shapes.append(_text(235 + j * 74, 212, f"{total} of 5"))
        shapes.append(_text(235 + j * 74, 230, "selected" if total > 2 else "not", size=12))
    shapes.append(_text(178, 212, "votes", "end"))
    words = (
        "Five subsets of the rows each choose features. Age is chosen by four, income by four, a weak feature "
        "by three: more than half, so they are selected. Two features of noise have one vote each and are "
        "not."
    )
    return Picture(
        600, 245, "A vote: a feature is selected if more than half of the subsets choose it", words, "".join(shapes)
    )


def _sketch() -> Picture:
    shapes = [_text(90, 30, "features: 10 million"), _text(430, 30, "sketch: 3 rows of cells, a few MB")]
    for i, name in enumerate(("word=cheap", "word=offer", "word=monday", "...")):
        shapes.append(_text(150, 66 + i * 34, name, "end"))
    for row in range(3):
        for cell in range(10):
            hit = (row, cell) in ((0, 3), (1, 7), (2, 1))
            shared = (row, cell) in ((0, 8), (1, 7), (2, 5))
            fill = "on" if hit else "off" if shared else ""
            shapes.append(_box(300 + cell * 27, 46 + row * 40, 27, 26, fill, 0.75))
    shapes += [_line(158, 62, 380, 58), _line(158, 62, 488, 98), _line(158, 62, 326, 138)]
    shapes.append(_text(300, 190, "a weight is the median of its three cells: a collision in one cell does no harm"))
    words = (
        "Ten million features have no weight each, but three cells each of a small table, found by hashing "
        "the feature's name. Two features may share a cell; the median of three cells is hardly moved by "
        "that."
    )
    return Picture(
        620, 205, "A count-sketch: the weights of very many features in little memory", words, "".join(shapes)
    )


def _substitution() -> Picture:
    shapes = [_text(110, 30, "columns pass by"), _text(330, 30, "s columns are held"), _text(530, 30, "dropped")]
    shapes += [_box(30 + i * 26, 60, 20, 80, "on", 0.2 + 0.12 * i) for i in range(6)]
    shapes += [_line(190, 100, 235, 100)]
    shapes += [_box(245 + i * 34, 60, 24, 80, "off" if i == 3 else "on", 0.75) for i in range(5)]
    shapes += [_line(425, 100, 490, 100), _box(510, 60, 24, 80, "off", 0.4)]
    shapes.append(_text(310, 172, "a column enters if its gain exceeds the smallest removal cost"))
    words = (
        "Columns stream by in blocks. Five are held. A new one replaces the held "
        "column whose removal costs least, if it gains more than that."
    )
    return Picture(600, 190, "Online substitution: one in, one out", words, "".join(shapes))


def _passes() -> Picture:
    shapes = [_text(150, 30, "a pass scores all columns"), _text(470, 30, "the columns added so far")]
    heights = [12, 20, 9, 60, 14, 25, 8, 72, 17, 11, 30, 10]
    for i, height in enumerate(heights):
        shapes.append(_box(30 + i * 21, 130 - height, 16, height, "off" if height > 50 else "on", 0.7))
    shapes += [_line(295, 95, 370, 95), _text(333, 84, "the B best", size=12)]
    for group in range(3):
        shapes += [_box(385 + group * 64 + i * 26, 66, 22, 64, "off", 0.75) for i in range(2)]
        shapes.append(_text(409 + group * 64, 148, f"pass {group + 1}", size=12))
    shapes.append(_text(310, 180, "a small problem over these is solved; the remaining errors score the columns again"))
    words = (
        "Each pass scores all columns by how much of the remaining errors they explain, and adds the two best "
        "to those of the earlier passes. Then a small problem over the added columns is solved."
    )
    return Picture(620, 195, "FGM: a few more columns with each pass", words, "".join(shapes))


def _layers() -> Picture:
    def room(x: float, y: float, width: float, words: str, below: str = "", fill: str = "on") -> str:
        middle = x + width / 2
        named = _text(middle, y + 16, words) + _text(middle, y + 30, below, size=11)
        return _box(x, y, width, 38, fill, 0.15) + (named if below else _text(middle, y + 24, words))

    shapes = [
        room(20, 20, 680, "cli, pipeline", "a run from a YAML file: checks, plan, checkpoint, folder"),
        room(250, 80, 230, "model_selection, baselines", "wrap or reuse selectors"),
        room(540, 80, 160, "report, applied", "HTML; predictions"),
        room(250, 140, 230, "selectors", "decide what to read and keep", "off"),
        room(20, 200, 130, "sources", "blocks of a file"),
        room(330, 200, 150, "feature_maps", "computed features"),
        room(60, 260, 150, "store", "tiles on disk (Zarr)"),
        room(110, 320, 140, "matrix", "rows or columns"),
        room(20, 380, 150, "cluster", "Dask: where tasks run"),
        room(210, 380, 230, "kernels", "numerics in numba: arrays in and out", "off"),
        room(500, 380, 200, "result", "selected features, scores, notes"),
        room(20, 440, 680, "parameters, losses, methods; objects, documents, files, errors, interrupts"),
        _line(90, 238, 90, 260),
        _line(150, 298, 150, 320),
        _line(230, 358, 230, 380),
        _text(222, 373, "block", "end", 11),
        _line(290, 380, 290, 178),
        _text(298, 312, "a few numbers", "start", 11),
        '<path d="M480 159 L520 159" fill="none" stroke="currentColor" stroke-width="1.5"/>',
        _line(520, 159, 520, 380),
        _line(620, 380, 620, 118),
        '<path d="M170 399 L210 399" fill="none" stroke="currentColor" stroke-dasharray="4 3"/>',
    ]
    words = (
        "From top to bottom: cli and pipeline; model selection, baselines, report and applied; selectors; sources and "
        "feature maps; store; matrix; cluster, kernels and result; declarations, files and errors. A box imports only "
        "boxes below it. Data go from sources to the store, the matrix and, as blocks, to kernels, which run on the "
        "cluster. Selectors receive a few numbers and make a result, from which the report is made."
    )
    title = "The layers: a box imports only boxes below it. Arrows show the path of the data"
    return Picture(720, 490, title, words, "".join(shapes))


PICTURES = {
    "layers": _layers(),
    "tiles": _tiles(),
    "block": _block(),
    "votes": _votes(),
    "sketch": _sketch(),
    "substitution": _substitution(),
    "passes": _passes(),
}

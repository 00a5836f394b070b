"""
A report of a fit
=================

`daskfs.examine` adds to a result what a reader needs: effects per standard deviation, near misses, warnings, and
metrics on rows that the fit has not seen. The same content can be written as an HTML page.
"""

# %%
# We select features of the breast cancer data, and keep a quarter of the rows for the test.

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import daskfs

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = y.map({0: "malignant", 1: "benign"})
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

selector = daskfs.FGM(6).fit(X_train, y_train)
result = daskfs.examine(selector, (X_train, y_train), test=(X_test, y_test))
print({name: round(value, 3) for name, value in result.metrics.items()})
print(*result.evidence.warnings, sep="\n")

# %%
# `result.figures()` has the figures of the report, each with a text that says what it shows.

figures = result.figures()
fig, four = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
for axes, kind in zip(four.flat, ("effects", "scores", "calibration", "sizes"), strict=True):
    figures[kind].on(axes)
plt.show()
print(figures["effects"].text)

# %%
# `save` writes the result, and `daskfs report` makes the page. It is one file that needs no network.

folder = tempfile.TemporaryDirectory()
result.save(f"{folder.name}/fit")
subprocess.run([sys.executable, "-m", "daskfs", "report", f"{folder.name}/fit"], check=True, capture_output=True)
page = (Path(folder.name) / "fit" / "report.html").read_text(encoding="utf-8")
print(f"report.html: {len(page) / 1000:.0f} kB")
folder.cleanup()

"""
Text: millions of words in a small sketch
=========================================

Text has more distinct words and pairs of words than weights fit in memory. Mission keeps their weights in a
count-sketch. Words are hashed as they are read, and the names of the selected ones come back at the end.
"""

# %%
# We write 6,000 simulated messages of 30 words. The vocabulary has 50,000 words, most of them rare. Ten words make it
# likely that a message is spam, or that it is not.

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import daskfs
from daskfs.sources.sparse.text import TextSource

rng = np.random.default_rng(0)
n_messages, vocabulary = 6000, np.array([f"word{j}" for j in range(50_000)], dtype=object)
spam_words = ["prize", "winner", "cheap", "offer", "click"]
other_words = ["meeting", "monday", "draft", "thanks", "budget"]
vocabulary[30:130:10] = spam_words + other_words
frequencies = 1 / (np.arange(50_000) + 10)
numbers = rng.choice(50_000, (n_messages, 30), p=frequencies / frequencies.sum())
evidence = np.isin(numbers, range(30, 80, 10)).sum(axis=1) - np.isin(numbers, range(80, 130, 10)).sum(axis=1)
is_spam = rng.random(n_messages) < 1 / (1 + np.exp(-2 * evidence))

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "messages.jsonl"
labels = np.where(is_spam, "spam", "other").tolist()
with path.open("w") as file:
    for words, label in zip(vocabulary[numbers], labels, strict=True):
        file.write(json.dumps({"text": " ".join(words), "label": label}) + "\n")

# %%
# The features are single words and pairs of neighbours: about 190,000 in all. They share a sketch of 3 times 16,384
# weights, which takes 192 KiB.

source = TextSource(path, target="label", ngram_range=(1, 2), weighting="binary")
selector = daskfs.Mission(10, n_buckets=2**14).fit_source(source)
print(selector.result_.table[["name", "coef"]].round(2).to_string(index=False))

# %%
# The first class in the alphabet is "other", so words with positive coefficients speak for spam.

table = selector.result_.table.sort_values("coef")
fig, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axes.barh(table["name"], table["coef"], color=np.where(table["coef"] > 0, "tab:red", "tab:blue"))
axes.axvline(0, color="0.3", linewidth=1)
axes.set(xlabel="coefficient (log-odds)", title="Ten words: other mail on the left, spam on the right")
plt.show()
folder.cleanup()

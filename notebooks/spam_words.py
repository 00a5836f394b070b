# %% [markdown]
# # Which words make a text message spam?
#
# 5,574 messages; MISSION learns in one pass over words and pairs of words, in a sketch whose size
# does not depend on how many there are. `DASKFS_DATA` names the folder that holds `text_smsspam/SMSSpamCollection.gz`, a class and a message a line.

# %%
import gzip
import json
import os
from pathlib import Path

import daskfs
from daskfs.sources.sparse.text import TextSource

raw = Path(os.environ["DASKFS_DATA"]) / "text_smsspam" / "SMSSpamCollection.gz"
with gzip.open(raw, "rt", encoding="utf-8") as lines, Path("sms.jsonl").open("w") as documents:
    for line in lines:
        label, _, text = line.rstrip("\n").partition("\t")
        documents.write(json.dumps({"text": text, "label": label}) + "\n")

# %%
source = TextSource("sms.jsonl", text="text", target="label", ngram_range=(1, 2))
selector = daskfs.Mission(20).fit_source(source)
selector.result_.table[["name", "coef"]]

"""
Genotypes in PLINK files
========================

Selectors read PLINK's .bed files where they are, without a copy. The result has the position and the alleles of each
selected variant.
"""

# %%
# We simulate 1,000 samples with 5,000 variants on one chromosome, and write the three files of PLINK. A .bed file holds
# four genotypes in a byte. Twelve variants have an effect on the height.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import daskfs
from daskfs.sources.plink import PlinkSource

rng = np.random.default_rng(0)
n_samples, n_variants = 1000, 5000
dosages = rng.binomial(2, rng.uniform(0.05, 0.5, n_variants), (n_samples, n_variants))
causal = np.sort(rng.choice(n_variants, 12, replace=False))
heights = 170 + dosages[:, causal] @ rng.choice([-2.0, 2.0], 12) + rng.normal(0, 3, n_samples)

folder = tempfile.TemporaryDirectory()
bed = Path(folder.name) / "cohort.bed"
codes = np.array([3, 2, 0], dtype=np.uint8)[dosages.T].reshape(n_variants, -1, 4)
packed = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
bed.write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
bed.with_suffix(".bim").write_text("".join(f"1\trs{j}\t0\t{1000 * (j + 1)}\tA\tG\n" for j in range(n_variants)))
bed.with_suffix(".fam").write_text("".join(f"f{i} s{i} 0 0 1 {height:.2f}\n" for i, height in enumerate(heights)))

# %%
# The variants pass in blocks. Only the selected ones are held, so that 100,000 samples with a million variants fit in
# memory as well.

genotypes = PlinkSource(bed, missing="mean").as_matrix()
selector = daskfs.OnlineSubstitution(12).fit(genotypes)
table = selector.result_.table
columns = ["name", "position", "effect_allele", "allele_frequency", "coef"]
print(table[columns].head().round(2).to_string(index=False))

# %%
# A genome scan tests one variant at a time. The selected variants are marked in it; dotted lines show the true ones.

correlation = np.array([np.corrcoef(variant, heights)[0, 1] for variant in dosages.T])
fig, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
for variant in causal:
    axes.axvline(variant + 1, color="tab:red", linestyle=":", linewidth=1)
axes.plot(np.arange(1, n_variants + 1), correlation**2, ".", color="0.6", markersize=3, label="all variants")
axes.plot(selector.selected_ + 1, correlation[selector.selected_] ** 2, "o", color="tab:blue", label="selected")
axes.set(xlabel="position in kb", ylabel="squared correlation", title="Selected variants in a scan of one by one")
axes.legend()
plt.show()
folder.cleanup()

"""
Several classes: which pixels distinguish ten digits?
=====================================================

With more than two classes a selector chooses one set of features for all of them. Each class has coefficients of its
own.
"""

# %%
# The digits of scikit-learn are 1,797 images of 8 by 8 pixels.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import daskfs

digits = load_digits()
X_train, X_test, y_train, y_test = train_test_split(digits.data, digits.target, random_state=0)

# %%
# Twenty of the 64 pixels are selected. The target is whole numbers, so we say that they are classes.

selector = daskfs.FGM(20, loss="logistic").fit(X_train, y_train)
print("coefficients:", selector.coef_.shape, " accuracy on test rows:", round(selector.score(X_test, y_test), 2))

# %%
# The colour of a pixel is its coefficient: in red, ink there speaks for the digit; in blue, against it. Pixels that are
# not selected are grey. The black line is the mean image of the digit.

limit = np.quantile(np.abs(selector.coef_[:, selector.support_]), 0.98)
colours = plt.get_cmap("RdBu_r").with_extremes(bad="0.92")
fig, axes = plt.subplots(2, 5, figsize=(9, 4.2), layout="constrained")
for digit, axis in enumerate(axes.flat):
    shown = np.where(selector.support_, selector.coef_[digit], np.nan).reshape(8, 8)
    image = axis.imshow(shown, cmap=colours, vmin=-limit, vmax=limit)
    axis.contour(digits.images[digits.target == digit].mean(axis=0), levels=[8], colors="black")
    axis.set_title(str(selector.classes_[digit]))
    axis.set_axis_off()
fig.colorbar(image, ax=axes, label="coefficient", extend="both")
fig.suptitle("Coefficients of the selected pixels")
plt.show()

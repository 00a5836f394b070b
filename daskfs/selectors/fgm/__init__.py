"""Feature generating machine: cutting planes over columns.

Open to others: `loss_weight`, the default C.
"""

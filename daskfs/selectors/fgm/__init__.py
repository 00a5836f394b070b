"""Feature generating machine: cutting planes over columns.

Other modules may use `loss_weight`, the default C.
"""

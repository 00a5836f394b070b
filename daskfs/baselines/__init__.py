"""The papers' competitors, behind the same interface as the selectors.

One file each: ``from daskfs.baselines.bolasso import Bolasso``.
"""

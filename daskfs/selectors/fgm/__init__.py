"""Feature generating machine: cutting planes over columns."""

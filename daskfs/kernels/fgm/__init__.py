"""Feature generating machine: scores of columns, the restricted problem."""

"""Feature generating machine: scores of columns, and the restricted problem."""

"""The steps of a run. Each file has what the step will cost, for the plan, and the step itself."""

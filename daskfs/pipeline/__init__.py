"""Pipelines: a checked YAML file, the plan of what it costs, and the run from source to report."""

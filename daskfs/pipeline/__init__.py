"""Pipelines: the checked YAML file, the plan of its costs, and the run from source to report."""

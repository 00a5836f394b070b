"""MESSAGE: subsets of the rows vote on features.

`selector` has the algorithm. Its steps: `plan` cuts rows into subsets and subsets into tasks, `tasks` has the passes
over them, `subset` selects and fits on one subset, `votes` counts votes, `fits` averages fits. `groups` is for groups
of columns; `screened`, `reweighted` and `in_step` are for files of genotypes.

Open to others, for methods that select on subsets or on all rows as one subset, such as the baselines in
daskfs.baselines.lasso:

* `choices.SelectionSettings`, `choices.PathTable`, `subset.choose`: model selection on some rows
* `choices.Choices`: the choices of all subsets of a pass, stored by column
* `plan.Subsets`, `plan.choose_n_subsets`, `plan.check_subsets`, `plan.plan_message`: how rows become subsets
* `tasks.SubsetPasses`, `tasks.bad_value_of`: passes over the subsets, and the error for a value that is not finite
* `votes.count_votes`, `votes.notes_on_choices`: votes, and the notes on them
"""

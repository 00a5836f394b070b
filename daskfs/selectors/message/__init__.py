"""MESSAGE: subsets of the rows vote.

`selector` has the algorithm. Its steps: `plan` cuts rows into subsets and subsets into tasks, `passes` maps over them,
`subset` is what one of them chooses and fits (`tasks`: where the data is), `votes` counts, `fits` averages.

Open to others that select on subsets, or on all rows as one, as the baselines of daskfs.baselines.lasso do:

* `choices.Choices`: what all subsets of a pass chose, in columns;
* `subset.SelectionSettings`, `subset.choose`, `subset.SubsetChoice`, `subset.PathTable`: a model chosen on some rows
* `plan.Subsets`, `plan.choose_n_subsets`, `plan.check_subsets`, `plan.plan_message`: how rows become subsets
* `passes.SubsetPasses`, `tasks.bad_value_of`: their passes, and the error of a value that is not finite
* `votes.count_votes`, `votes.notes_on_choices`: what is said of their choices
"""

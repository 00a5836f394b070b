"""Online substitution over a stream of columns.

Open to others, for selectors that decide on columns with the same engines: `base`, the parameters; `target`,
`objective`, `columns`, `members`, `engines.base`, `engines.choose`; `plan`, the memory of reads.
"""

"""Online substitution over a stream of columns.

Open to others, for selectors that decide on columns with the same engines: `base`, the parameters; `target`, `columns`,
`members`, `engines.base`, `engines.classes`, `engines.quadratic`, `engines.squared`; `plan`, the memory of reads.
"""

"""Online substitution over a stream of columns.

Other selectors that decide on columns with the same engines may use: `base`, the parameters; `target`, `columns`,
`members`, `engines.base`, `engines.classes`, `engines.quadratic`, `engines.squared`; `plan`, the memory of reads.
"""

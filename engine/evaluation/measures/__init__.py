"""CONFIDENTIAL. Measures of utility: how near released tables are to the data.

A measure is a function of aligned data, its section of the study, and a generator where it draws; it gives a `Finding`.
`figures.toml` names it, and says what its figures mean. A measure of another package gives a tidy frame instead.
"""

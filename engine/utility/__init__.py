"""Utility: how near released tables are to the data.

Each measure is a function of a `Comparison` (original and tables side by side, as codes) and a section of a study, and
gives a `Score`; what its figures mean is in `engine.figures`.
"""

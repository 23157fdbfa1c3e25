"""Checks of a release before it is trusted: structure, catalogue, text sizes, counts, contents.

Takes a locked-down connection with an attached release.
Gives refusals, and what the catalogue lists.
May import the engine's root and the modules of the store that write.
"""

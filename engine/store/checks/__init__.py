"""What a release must be before anybody believes it: structure, catalogue, counts, contents.

Takes a locked connection on an attached release.
Gives refusals, and what the catalogue lists.
May import the engine's root and the modules of the store that write.
"""

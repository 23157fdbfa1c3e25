"""What stands beside a release for the page alone: definitions, sources, contacts, and maps.

Takes a release's path and its variables.
Gives an `About`, a variable in words, and outlines as paths to draw.
May import what `queries.serve` may.
"""

"""Pictures of a report: small SVG in colours that the page sets.

Takes the tables behind a measure or attack.
Gives `Picture`s: SVG with a title and a text alternative.
May import what `engine.evaluation.report` may; matplotlib.
"""

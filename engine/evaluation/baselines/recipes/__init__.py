"""CONFIDENTIAL. Recipes: published generators that are no dependencies, each run in an environment of its own.

Takes, as a command, a CSV file of rows, the path of another, and a seed: `python mst.py IN OUT SEED`.
Gives a CSV file of as many synthetic rows with the same columns.
May import nothing of the project: what a recipe needs is in `engine.evaluation.baselines.outside.RECIPES`.
"""

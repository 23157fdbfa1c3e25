"""CONFIDENTIAL. Attacks: what an attacker achieves against released tables, beside a baseline and a control.

An attack is a function of what the attacker holds, what the study says that they know and want, and a generator; it
gives a `Finding`. `protocol.py` has what all share. `evaluate` runs the attacks of who knows some facts about some
people, `attack` those of who knows nearly everything, or chooses the tables; `figures.toml` says which is which.
"""

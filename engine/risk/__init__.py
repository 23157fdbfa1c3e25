"""Risk: what attackers achieve against released tables, each attack with its baseline and control."""

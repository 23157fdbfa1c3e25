# The four jobs, by short names; the scripts behind them need no just.

# the main job end to end, on a simulated census
demo *ARGS:
    ./scripts/demo {{ARGS}}

# all checks; a folder of tests, or --all for the longer ones too
test *ARGS:
    ./scripts/test {{ARGS}}

# what builds cost, against plain GROUP BYs; also: just bench sql, just bench scale
bench *ARGS:
    ./scripts/bench {{ARGS}}

# the API reference, from the docstrings
docs *ARGS:
    ./scripts/reference {{ARGS}}

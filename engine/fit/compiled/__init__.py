"""PUBLIC, right of the wall. Innermost loops of the fit as machine code (extra `fast`).

Takes the sources in `engine.fit.compiled.sources`, compiles them once an installation and keeps the machine code.
Gives functions that take and change arrays.
May import the engine's root, numba where it compiles, llvmlite where it loads.
"""

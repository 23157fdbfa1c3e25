"""PUBLIC, right of the wall. Innermost loops of the fit, as numba compiles them.

Takes and changes the arrays of raking, rounding and settling.
Gives what their twins in numpy give, to the last bit.
May import numba and itself. `engine.fit.compiled.linking` alone imports them.
"""

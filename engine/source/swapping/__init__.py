"""CONFIDENTIAL. Swapping: some records exchange values before anything is counted, as a spec declares.

Takes the table of encoded rows with entity tokens, `SwapParams` and the key.
Gives the same table with the values of some pairs of records exchanged.
May import what `engine.source` may.
"""

from engine.source.swapping.exchange import exchange

__all__ = ["exchange"]

"""From noisy margins to a joint distribution and rows drawn from it (dp mode). Sees no data: right of the wall."""

"""Guards: what each API takes from a request that its caller is not authorized for, and how that is answered."""

"""The judge of transactions: all of a committed one or nothing, and each input once."""

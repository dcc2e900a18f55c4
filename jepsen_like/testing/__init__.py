"""Clusters for the tests of programs that use the log: `cluster` for Trio, `aio` for asyncio, `sync` for plain Python."""

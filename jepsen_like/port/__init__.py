"""The port that every system implements, and the values that go through it."""

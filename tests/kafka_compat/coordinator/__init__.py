"""Tests of the group coordinator: reviewed conversations, record formats, and clients in any order."""

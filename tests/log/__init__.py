"""The log's promises, one sentence a test."""

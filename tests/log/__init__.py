"""What the log promises, one sentence a test."""

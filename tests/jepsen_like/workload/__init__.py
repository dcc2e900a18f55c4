"""What is recorded of an operation, and by whom it is asked."""

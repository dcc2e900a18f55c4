"""The wire protocol: held against other implementations, against bytes by hand, and against damage."""

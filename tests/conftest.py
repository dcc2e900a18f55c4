"""Shared by every test: how Hypothesis and Ctrl-C behave here, and pytest's own tool for tests of plugins."""

import signal

import hypothesis

pytest_plugins = ["pytester"]

# No deadline: two shared cores make any single example slow now and then. Fresh examples each time, so that runs add up;
# a failure prints the blob that reproduces it.
hypothesis.settings.register_profile("house", deadline=None, derandomize=False, print_blob=True)
hypothesis.settings.load_profile("house")

# A shell starts what it runs in the background with this signal ignored, and so would be whatever the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

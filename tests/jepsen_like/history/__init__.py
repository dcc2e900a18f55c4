"""The history's promises."""

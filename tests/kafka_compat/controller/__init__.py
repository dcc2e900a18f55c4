"""The controller: what each command promises, held against examples, a naive model and damage."""

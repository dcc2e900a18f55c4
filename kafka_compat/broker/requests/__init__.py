"""What a broker answers, by theme: each module has the handlers of a few APIs."""

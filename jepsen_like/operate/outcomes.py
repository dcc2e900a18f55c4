"""The ends of an operator's command: done, certainly not done, or unknown; each with an exit status of its own."""

import click

from jepsen_like.cli import ExitStatus


class NotDone(click.ClickException):
    """The request certainly has not been carried out; the message names the reason and the next command."""

    exit_code = ExitStatus.NOT_DONE


class PerhapsDone(click.ClickException):
    """The request may have been carried out, or may still be; the message names the command that shows it."""

    exit_code = ExitStatus.UNKNOWN

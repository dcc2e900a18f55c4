"""Addresses on a command line, as `HOST:PORT,...`."""

from collections.abc import Iterable

import click

from jepsen_like.port.wires import Address, text_of


class AddressesType(click.ParamType[tuple[Address, ...]]):
    """`HOST:PORT,...`."""

    name = "HOST:PORT,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Address, ...]:
        """Returns the addresses, each once, in their order."""
        if isinstance(value, tuple):
            return value
        found: dict[Address, None] = {}
        for word in filter(None, (each.strip() for each in str(value).replace(";", ",").split(","))):
            host, colon, port = word.rpartition(":")
            if not (colon and host and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
                self.fail(f"{word!r} is not of the form HOST:PORT", param, ctx)
            found[host.strip("[]"), int(port)] = None
        if not found:
            self.fail("it names no address", param, ctx)
        return tuple(found)


def text_of_cluster(addresses: Iterable[Address]) -> str:
    """Returns addresses as `--cluster` takes them."""
    return ",".join(map(text_of, addresses))

"""Values: attrs classes that are frozen for the type checker, but not at run time.

A frozen attrs class costs three times as much to make as one that is not, and a node makes a dozen of them for every
message. So the type checker, which sees all of this code, forbids changes; at run time nothing does.
"""

import functools
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from attrs import frozen
else:
    frozen = functools.partial(attrs.define, unsafe_hash=True)

__all__ = ["frozen"]

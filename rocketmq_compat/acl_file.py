"""Reads `plain_acl.yml`, RocketMQ's file of accounts. Pure.

Of YAML it takes what such files use: maps of names to texts or lists, lists of texts or of maps, `[a, b]`, quotes and
comments. Anything else is refused with the number of its line.
"""

from typing import Final, Self

import attrs

from rocketmq_compat.acls import KEY_LENGTH_MIN, RETRY_PREFIX, Account, AclRules, Addresses, Perm

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
INDENT_MAX: Final = 64
_TOP: Final = ("globalWhiteRemoteAddresses", "accounts", "dataVersion")
_ACCOUNT: Final = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)


@attrs.define
class InvalidAclFile(ValueError):
    """The file cannot be used. `line` counts from 1; 0 stands for the whole file."""

    detail: str
    line: int = 0

    def __str__(self) -> str:
        return f"line {self.line}: {self.detail}" if self.line else self.detail


@attrs.frozen
class _Line:
    number: int
    indent: int
    text: str


@attrs.frozen
class _Text:
    line: int
    text: str


@attrs.frozen
class _List:
    line: int
    items: "list[_Node]"


@attrs.frozen
class _Map:
    line: int
    fields: "dict[str, _Node]"


_Node = _Text | _List | _Map


def read_rules(text: str) -> AclRules:
    """Returns the rules in a file. Raises `InvalidAclFile`."""
    root = _Reader.of(text).read()
    for name, node in root.fields.items():
        if name not in _TOP:
            raise InvalidAclFile(f"{name[:60]} is not known; there are {', '.join(_TOP)}", node.line)
    white = tuple(_addresses(node) for node in _items(root, "globalWhiteRemoteAddresses"))
    accounts: dict[str, Account] = {}
    for node in _items(root, "accounts"):
        account = _account(node)
        if account.access_key in accounts:
            raise InvalidAclFile(f"the accessKey {account.access_key} is repeated", node.line)
        accounts[account.access_key] = account
    return AclRules(accounts, white)


# -------------------------------------------------------------------- what it means


def _account(node: _Node) -> Account:
    if not isinstance(node, _Map):
        raise InvalidAclFile("an account is a map that begins with accessKey", node.line)
    for name, value in node.fields.items():
        if name not in _ACCOUNT:
            raise InvalidAclFile(f"{name[:60]} is not known; an account has {', '.join(_ACCOUNT)}", value.line)
    keys = [_text(node, "accessKey"), _text(node, "secretKey")]
    if min(map(len, keys)) < KEY_LENGTH_MIN:
        raise InvalidAclFile("accessKey and secretKey must be there and longer than 6 characters", node.line)
    perms = dict(map(_perm, _items(node, "topicPerms")))
    perms |= {RETRY_PREFIX + name: perm for name, perm in map(_perm, _items(node, "groupPerms"))}
    white = node.fields.get("whiteRemoteAddress", _Text(node.line, ""))
    return Account(
        access_key=keys[0],
        secret_key=keys[1],
        white_addresses=_addresses(white),
        admin=_flag(node, "admin"),
        default_topic_perm=_parse_perm(_text(node, "defaultTopicPerm") or "DENY", node.line),
        default_group_perm=_parse_perm(_text(node, "defaultGroupPerm") or "DENY", node.line),
        perms=perms,
    )


def _items(of: _Map, name: str) -> "list[_Node]":
    node = of.fields.get(name)
    if node is None or node == _Text(node.line, ""):
        return []
    if not isinstance(node, _List):
        raise InvalidAclFile(f"{name} is a list", node.line)
    return node.items


def _text(of: _Map, name: str) -> str:
    node = of.fields.get(name)
    if node is None:
        return ""
    if not isinstance(node, _Text):
        raise InvalidAclFile(f"{name} is a text", node.line)
    return node.text


def _flag(of: _Map, name: str) -> bool:
    text = _text(of, name).lower()
    if text not in ("", "true", "false"):
        raise InvalidAclFile(f"{name} is true or false", of.fields[name].line)
    return text == "true"


def _perm(node: _Node) -> tuple[str, Perm]:
    if not isinstance(node, _Text):
        raise InvalidAclFile("a permission is written as name=PUB|SUB", node.line)
    name, equals, text = node.text.partition("=")
    if not equals or not name.strip():
        raise InvalidAclFile(f"{node.text[:60]!r}: a permission is written as name=PUB|SUB", node.line)
    return name.strip(), _parse_perm(text, node.line)


def _parse_perm(text: str, line: int) -> Perm:
    try:
        return Perm.parse(text)
    except ValueError as error:
        raise InvalidAclFile(str(error), line) from None


def _addresses(node: _Node) -> Addresses:
    if not isinstance(node, _Text):
        raise InvalidAclFile("an address is a text", node.line)
    try:
        return Addresses.parse(node.text)
    except ValueError as error:
        raise InvalidAclFile(str(error), node.line) from None


# -------------------------------------------------------------------- how it is written


@attrs.define
class _Reader:
    """Reads nested blocks of lines by their indents."""

    lines: list[_Line]
    place: int = 0

    @classmethod
    def of(cls, text: str) -> Self:
        """Returns the reader of a text. Raises `InvalidAclFile`."""
        lines = []
        for number, raw in enumerate(text.splitlines(), 1):
            kept = _without_comment(raw).rstrip()
            if not kept or kept == "---":
                continue
            bare = kept.lstrip(" ")
            if bare.startswith("\t"):
                raise InvalidAclFile("indent with spaces", number)
            if len(kept) - len(bare) > INDENT_MAX:
                raise InvalidAclFile(f"the indent is wider than {INDENT_MAX}", number)
            lines.append(_Line(number, len(kept) - len(bare), bare))
        return cls(lines)

    def read(self) -> _Map:
        """Returns the map that is the file."""
        if not self.lines:
            return _Map(0, {})
        found = self._read_map(self.lines[0].indent)
        if self.place < len(self.lines):
            raise InvalidAclFile("the indent fits no line above", self.lines[self.place].number)
        return found

    @property
    def _next(self) -> _Line | None:
        return self.lines[self.place] if self.place < len(self.lines) else None

    def _read_map(self, indent: int) -> _Map:
        fields: dict[str, _Node] = {}
        first = self.lines[self.place].number
        while (line := self._next) is not None and line.indent == indent and not _is_item(line):
            name, colon, rest = line.text.partition(":")
            if not colon or (rest and not rest.startswith(" ")):
                raise InvalidAclFile(f"{line.text[:60]!r} is not name: value", line.number)
            name = _unquote(name, line.number)
            if name in fields:
                raise InvalidAclFile(f"{name[:60]} is there twice", line.number)
            self.place += 1
            fields[name] = _scalar(rest.strip(), line.number) if rest.strip() else self._read_below(indent, line.number)
        return _Map(first, fields)

    def _read_below(self, indent: int, number: int) -> _Node:
        """Reads the block under a name. A list may stand at the indent of its name."""
        line = self._next
        if line is not None and _is_item(line) and line.indent >= indent:
            return self._read_list(line.indent)
        if line is not None and line.indent > indent:
            return self._read_map(line.indent)
        return _Text(number, "")

    def _read_list(self, indent: int) -> _List:
        items: list[_Node] = []
        first = self.lines[self.place].number
        while (line := self._next) is not None and line.indent == indent and _is_item(line):
            rest = line.text[1:].lstrip(" ")
            if not rest:
                self.place += 1
                below = self._next
                items.append(
                    self._read_map(below.indent) if below and below.indent > indent else _Text(line.number, "")
                )
            elif _begins_map(rest):
                inner = indent + len(line.text) - len(rest)
                self.lines[self.place] = _Line(line.number, inner, rest)
                items.append(self._read_map(inner))
            else:
                self.place += 1
                items.append(_scalar(rest, line.number))
        return _List(first, items)


def _is_item(line: _Line) -> bool:
    return line.text == "-" or line.text.startswith("- ")


def _begins_map(text: str) -> bool:
    name, colon, rest = text.partition(":")
    return bool(colon) and name.isidentifier() and (not rest or rest.startswith(" "))


def _scalar(text: str, number: int) -> _Node:
    if text.startswith("["):
        if not text.endswith("]"):
            raise InvalidAclFile("a list in brackets ends on its line", number)
        parts = [each.strip() for each in text[1:-1].split(",") if each.strip()]
        return _List(number, [_Text(number, _unquote(each, number)) for each in parts])
    if text[0] in "&!|>%@`" or (text[0] == "{" and text.endswith("}")) or (text[0] == "*" and text[1:2].isalpha()):
        raise InvalidAclFile(f"{text[:60]!r} is YAML that is not read here; write it in quotes, or as a list", number)
    return _Text(number, _unquote(text, number))


def _unquote(text: str, number: int) -> str:
    text = text.strip()
    if text[:1] not in ("'", '"'):
        return "" if text in ("null", "~") else text
    if len(text) < 2 or text[-1] != text[0]:
        raise InvalidAclFile("a quote is not closed", number)
    inner = text[1:-1]
    if text[0] == "'":
        return inner.replace("''", "'")
    if "\\" in inner:
        raise InvalidAclFile("escapes are not read here; use single quotes", number)
    return inner


def _without_comment(line: str) -> str:
    """Returns a line up to a `#` that is outside of quotes and begins a word."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif (letter in "'\"" and not line[:place].rstrip(" -:[,").strip()) or (
            letter in "'\"" and line[:place].rstrip()[-1:] in ":-[,"
        ):
            quote = letter
        elif letter == "#" and (not place or line[place - 1] in " \t"):
            return line[:place]
    return line

"""The ext fields of requests and answers as classes, one module a theme: `sending`, `pulling`, `offsets`, `clients`,
`topics`, `routes`.

Classes and wire fields have RocketMQ's names; `fields` writes and reads them.
"""

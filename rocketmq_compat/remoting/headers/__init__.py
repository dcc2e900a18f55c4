"""The ext fields of requests and answers as classes, one module a theme: `sending`, `pulling`, `offsets`, `clients`, `topics`, `routes`.

They are named as RocketMQ's own classes are, and so are their fields on the wire; see `fields` for how they are written and read.
"""

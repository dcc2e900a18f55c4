"""Mechanisms of SASL as pure state machines: messages in, messages and an identity out."""

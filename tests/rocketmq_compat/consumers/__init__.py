"""Tests of the rules of consuming: reviewed conversations, and clients, time and messages in any order
against models.
"""

"""Virtual time, chance, the network, campaigns, scenarios, shrinking and exhaustive search, for any model.

Read `campaign.py` first.
"""

"""Virtual time, chance, network, campaigns, scenarios, shrinking and search for any model. Read `campaign.py` first."""

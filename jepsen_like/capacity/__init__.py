"""The capacity that is left when a zone is lost: how many brokers a load needs in N zones, measured on real brokers."""

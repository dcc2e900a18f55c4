"""The Kafka wire protocol without IO: frames' bodies into values and back, for brokers, clients and followers."""

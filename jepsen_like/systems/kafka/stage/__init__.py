"""A cluster of Kafka brokers on which an experiment acts: topics as it places them, faults as it begins and ends them, exact clients."""

"""kafka_compat"""

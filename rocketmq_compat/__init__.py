"""rocketmq_compat"""

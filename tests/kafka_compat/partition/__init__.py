"""The replica of one partition: golden scripts, rules one by one, and three replicas under any sequence of events."""

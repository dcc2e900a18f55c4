"""RocketMQ's remoting protocol: frames, codes, header fields and bodies without IO, and sessions and a client on
sockets.
"""

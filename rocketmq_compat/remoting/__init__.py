"""RocketMQ's remoting protocol: frames, codes, fields and bodies without IO; sessions and a client on sockets."""

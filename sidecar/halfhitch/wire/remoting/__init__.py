"""RocketMQ's remoting protocol as bytes and values: no sockets, no clock, no state of a broker.

`frame` cuts a stream into requests and writes answers; the other modules read one kind of request
each or write one kind of body. Whatever a stranger sends, two errors come out (`faults`): one for a
stream that cannot be read on, one for a request that is answered with a code and a remark.
"""

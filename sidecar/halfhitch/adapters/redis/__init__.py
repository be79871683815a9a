"""The doubt index, presence and inboxes in a real Redis: `index.RedisIndex`.

Owns everything that is kept in Redis. It is written behind and never believed: nothing in the
coordinator waits for it, and all of it can be made again from the logs.
"""

"""Half Hitch's data door beside dtm, a coordinator over HTTP: `make bench-dtm`.

The load of both is wrk, told by a script of a few lines how a transaction looks to each. What every
committed transaction came to is counted on either side: on ours by a reader of Kafka, on dtm's by
the subscriber that dtm calls.

Not collected by pytest. Nothing here is imported by the product.
"""

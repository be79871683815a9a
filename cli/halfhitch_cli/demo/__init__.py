"""The demo: an order service with a real database, disturbed on purpose, and the books after it.

shop.py      the order service: what an application looks like that uses Half Hitch
forgetful.py another service, which never can say what became of its messages
stage.py     the servers and processes of the demo, started, killed and stopped
watch.py     what can be seen while it runs; figures.py: what the sidecar counts of it
verdict.py   the books: database, topics, logs and Spark, compared at the end
show.py      how all this looks on a terminal
"""

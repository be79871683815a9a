"""What the owner of a half partition does: read, take over, take turns, forward, ask.

`ownership.py` has a worker for each partition that is owned here, `worker.py` the thread that
drives one owner, `turn.py` that owner.
"""

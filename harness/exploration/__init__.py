"""Which sequences of crashes lead to states that no run has seen?

`JobWorld` (job_world.py) shows the certifying job to the explorer as durable states and successors; `Closures`
(closures.py) runs them to their end. run_memo.py reuses outcomes of equal states; shrinking.py shortens schedules.
May import: execution, generators and everything below.
"""

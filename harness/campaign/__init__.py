"""In which order are schedules tried, and until when?

A plan is a table of `Stage` values (stage.py): simulated_plan.py, process_plan.py (its part outward_calls_plan.py) and
spark_plan.py. `Campaign` (loop.py) runs any plan; `CampaignResults` (results.py) keeps what was found, `Coverage` what
was reached.
May import: exploration, generators, execution and everything below.
"""

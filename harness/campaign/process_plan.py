"""The stages of a campaign in the process shell: real SIGKILLs at every protocol step and every executed line.

High-yield schedules come first, so that a short budget covers something of each kind. The `required` stages run for
a user's sink whatever the budget; the last stages run as far as the budget allows.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from sinkproof.campaign.loop import Campaign
from sinkproof.campaign.outward_calls_plan import (
    INSIDE_SERVICE,
    NATIVE_CODE,
    NATIVE_CODE_OTHERWISE,
    OUTWARD_CALLS,
    WATCHED_SINK,
)
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.simulated_plan import REGISTERED_FAULTS
from sinkproof.campaign.stage import WALL_CLOCK_STAGE, Need, Plan, Stage
from sinkproof.chaos.faults.terminate_attempt import TERMINATE
from sinkproof.generators import (
    combinations,
    high_yield,
    interleavings,
    longest_commits,
    rare,
    service_faults,
    single_faults,
)
from sinkproof.generators.deaths_beside_programs import deaths_beside_programs
from sinkproof.generators.repeated_errors import repeated_errors
from sinkproof.generators.zombies_and_deaths import zombies_after_errors, zombies_and_deaths, zombies_waited_for
from sinkproof.generators.zombies_beside_successors import zombies_beside_successors
from sinkproof.subject.static_analysis.waits_in_code import long_wait_seconds

PART_SECONDS_MOST: Final = 30.0  # hundreds of schedules, or some dozens where the sink uses a slow library


KILLS_AND_MESSAGES: Final[Plan] = (  # also the first part of the Spark shell's plan
    Stage(name="kill at each step", schedules=partial(single_faults.first_time, kind="kill"), whole=True),
    Stage(name="zombies at first steps", schedules=single_faults.zombies_at_first_steps, whole=True),
    Stage(name="late zombies", schedules=single_faults.late_zombies, whole=True),
    Stage(name="very late zombies", schedules=single_faults.very_late_zombies_at_first_steps, needs=(Need.NO_SERVICE,)),
    Stage(name="error at each call", schedules=single_faults.errors, whole=True),
    Stage(name="unanswered calls", schedules=single_faults.unanswered_calls, needs=(Need.NO_NAMED_POINTS,), whole=True),
    Stage(name="lost notifications", schedules=partial(single_faults.at_every_step, kind="lose"), whole=True),
    Stage(name="declined votes", schedules=single_faults.declined_votes, whole=True),
)
WATCHED_POWER: Final[Plan] = (
    Stage(
        name="power losses, by what system calls have forced",
        explore=ProcessCampaign.lose_power_without_help,
        needs=(Need.WATCHED_POWER, Need.NO_SERVICE),
        required=True,
        whole=True,
    ),
)
ORDERLY_ENDS: Final[Plan] = (
    Stage(
        name="SIGTERM at each step",
        schedules=single_faults.terminations,
        needs=(Need.HANDLES_SIGTERM,),
        lines=True,
        required=True,
        whole=True,
    ),
)
HIGH_YIELD: Final[Plan] = (
    *OUTWARD_CALLS,
    *INSIDE_SERVICE,
    Stage(name="zombies within commits", schedules=interleavings.zombies_within_commits, needs=(Need.NO_SERVICE,)),
    Stage(
        name="one whole-job kill in each job",
        schedules=partial(high_yield.one_crash_in_each_job, kind="kill-job"),
        whole=True,
    ),
    Stage(
        name="unusual rows and batches, without faults",
        schedules=high_yield.without_faults,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    *KILLS_AND_MESSAGES,
    Stage(
        name="errors in reused processes",
        schedules=single_faults.errors_in_reused_processes,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(name="messages to the broker", schedules=service_faults.message_faults, needs=(Need.SERVICE,)),
    Stage(
        name="refused requests, late replies, closed connections",
        schedules=single_faults.refused_requests,
        needs=(Need.NO_NAMED_POINTS,),
    ),
    Stage(name="repeated errors", schedules=repeated_errors),
    Stage(name="generations with one digit more", schedules=high_yield.longer_generations, needs=(Need.NO_SERVICE,)),
    Stage(
        name="twelve checkpoints pending",
        schedules=high_yield.many_pending_checkpoints,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(name="twelve sink subtasks", schedules=high_yield.twelve_sinks, needs=(Need.NO_SERVICE, Need.FOREIGN_CODE)),
    *ORDERLY_ENDS,
    Stage(name="kill at steps of recoveries", explore=Campaign.strike_unstruck_points, whole=True),
    *NATIVE_CODE,
    *WATCHED_POWER,
    Stage(name="pauses within commits", schedules=interleavings.pauses_within_commits),
    Stage(
        name="pauses within full commits", schedules=interleavings.pauses_within_full_commits, needs=(Need.NO_SERVICE,)
    ),
    Stage(
        name="two pauses within commits", schedules=interleavings.two_pauses_within_commits, needs=(Need.NO_SERVICE,)
    ),
    Stage(
        name="zombies within commits with a service",
        schedules=interleavings.zombies_within_commits,
        needs=(Need.SERVICE,),
    ),
    Stage(
        name="zombies of removed subtasks within commits",
        schedules=interleavings.zombies_of_removed_subtasks,
        needs=(Need.NO_SERVICE, Need.RESCALES),
    ),
    Stage(
        name="zombies that die, that two successors have replaced, or that have lost their connection",
        schedules=lambda campaign: zombies_and_deaths(campaign, waited_for=campaign.shown.waited_for),
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="zombies after errors that the sink has handled",
        schedules=lambda campaign: zombies_after_errors(campaign, errors=[*campaign.shown.handled]),
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="zombies that go on while their successor opens or commits",
        schedules=lambda campaign: zombies_beside_successors(campaign, waited_for=campaign.shown.waited_for),
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.FOREIGN_CODE,),
    ),
    Stage(
        name="zombies within commits that go on many checkpoints later",
        schedules=interleavings.zombies_within_commits_much_later,
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="attempts that hang, and are killed after their replacement",
        schedules=interleavings.hanging_attempts,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="zombies for which other attempts wait longer",
        schedules=lambda campaign: zombies_waited_for(
            [*campaign.shown.waited_for], wait_seconds=long_wait_seconds(campaign.runner.files)
        ),
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
        required=True,
    ),
    Stage(name="pauses within recoveries", schedules=interleavings.pauses_within_recoveries, needs=(Need.NO_SERVICE,)),
    Stage(
        name="faults in commits of two checkpoints",
        schedules=interleavings.faults_in_commits_of_two_checkpoints,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="second faults within recoveries",
        schedules=interleavings.crashes_within_recoveries,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="kill and zombie at lines of restored attempts",
        schedules=interleavings.faults_in_restored_attempts,
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.FOREIGN_CODE,),
    ),
    Stage(
        name="what does harm only together: jobs that differ in two ways, second restarts, successors that die",
        schedules=combinations.combined,
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="aborts after the next snapshot", schedules=rare.aborts_after_the_next_snapshot, needs=(Need.FOREIGN_CODE,)
    ),
    Stage(
        name="commits in containers, with one process id",
        schedules=interleavings.commits_in_containers,
        needs=(Need.PYTHON, Need.FOREIGN_CODE),
    ),
    Stage(
        name="deaths of attempts alone, beside programs that they have started",
        schedules=deaths_beside_programs,
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.PYTHON, Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="restarts on other hosts, without files of the first ones",
        explore=ProcessCampaign.restart_on_other_hosts,
        needs=WATCHED_SINK,
        required=True,
    ),
    Stage(
        name="errors of reads, in a recovery, too",
        schedules=rare.errors_of_reads,
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.PYTHON, Need.FOREIGN_CODE),
    ),
    Stage(name="folders listed in another order", schedules=rare.folders_in_another_order, needs=(Need.PYTHON,)),
    Stage(name="replies in pieces", schedules=rare.replies_in_pieces, needs=(Need.PYTHON,)),
    Stage(
        name="threads of the sink at another pace",
        schedules=high_yield.threads_at_another_pace,
        needs=(Need.FOREIGN_CODE,),
        lines=True,
    ),
    Stage(
        name="zombies without a successor",
        schedules=single_faults.zombies_without_successor,
        needs=(Need.NO_SERVICE, Need.RESCALES),
    ),
    Stage(
        name="concurrent reader",
        schedules=interleavings.beside_a_reader,
        concurrent_reader=True,
        needs=(Need.CONCURRENT_READER,),
    ),
    Stage(
        name="rare situations beside a service",
        explore=ProcessCampaign.meet_rare_situations_beside_a_service,
        needs=(Need.USES_SERVICE, Need.FOREIGN_CODE),
        required=True,
    ),
    Stage(
        name="external system fails next to requests",
        schedules=service_faults.node_faults_near_requests,
        needs=(Need.SERVICE,),
    ),
    Stage(
        name=WALL_CLOCK_STAGE,
        explore=ProcessCampaign.pass_midnight,
        needs=(Need.FOREIGN_CODE, Need.WALL_CLOCK),
        required=True,
    ),
    Stage(
        name="errors at calls of recoveries",
        explore=Campaign.fail_calls_of_recoveries,
        needs=(Need.FOREIGN_CODE,),
        required=True,
    ),
    Stage(name="kill at further steps of recoveries", explore=Campaign.strike_unstruck_points, whole=True),
    Stage(name="kill at each line, each time in a commit", schedules=single_faults.kills_at_lines, whole=True),
    Stage(
        name="kill at each line of the longest of many commits",
        schedules=longest_commits.kills_in_the_longest_of_many_commits,
        needs=(Need.FOREIGN_CODE,),
        required=True,
    ),
    Stage(
        name="pause at each line of the longest of many commits",
        schedules=longest_commits.pauses_in_the_longest_of_many_commits,
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.NO_SERVICE, Need.FOREIGN_CODE),
    ),
    Stage(
        name="SIGTERM at each line",
        schedules=partial(single_faults.first_time_at_lines, kind=TERMINATE.word),
        needs=(Need.HANDLES_SIGTERM,),
        lines=True,
        required=True,
        whole=True,
    ),
    Stage(
        name="pause at each line",
        schedules=partial(single_faults.first_time_at_lines, kind="pause"),
        lines=True,
        whole=True,
    ),
    Stage(
        name="zombie from each line",
        schedules=partial(single_faults.first_time_at_lines, kind="stop"),
        lines=True,
        whole=True,
    ),
    Stage(
        name="kill, pause and zombie at lines of recoveries",
        explore=Campaign.strike_lines_of_recoveries,
        needs=(Need.FOREIGN_CODE,),
    ),
    *NATIVE_CODE_OTHERWISE,
    Stage(name="other parallelism after whole-job kills", schedules=single_faults.rescales, needs=(Need.RESCALES,)),
    Stage(
        name="crashes within rescaled recoveries",
        schedules=interleavings.crashes_within_rescaled_recoveries,
        seconds_most=PART_SECONDS_MOST,
        needs=(Need.NO_SERVICE, Need.RESCALES),
    ),
    Stage(
        name="power losses after deaths within commits",
        schedules=interleavings.power_losses_after_deaths_within_commits,
        needs=(Need.NO_COPIES, Need.POWER_LOSS),
    ),
    Stage(name="whole-job kills in other jobs", schedules=high_yield.whole_job_kills_in_other_jobs),
    Stage(
        name="unusual situations, while statements never ran",
        explore=ProcessCampaign.search_unusual_situations,
        needs=(Need.FOREIGN_CODE,),
        required=True,
    ),
)
AT_LINES: Final[Plan] = (
    Stage(
        name="kill before each outward call of native code in recoveries",
        explore=ProcessCampaign.kill_before_outward_calls_of_recoveries,
        needs=(Need.NATIVE_CALLS,),
    ),
    Stage(
        name="pauses within recoveries with a service",
        schedules=interleavings.pauses_within_recoveries,
        needs=(Need.SERVICE,),
    ),
    Stage(name="lines of recoveries", explore=ProcessCampaign.trace_recoveries),
    Stage(name="kill at lines of recoveries", explore=Campaign.strike_unstruck_points),
    Stage(name="external system fails at other steps", schedules=service_faults.node_faults, needs=(Need.SERVICE,)),
    Stage(
        name="zombies, errors and whole-job kills at each step", schedules=single_faults.zombies_errors_and_job_kills
    ),
    Stage(name="kill at lines of zombies", explore=Campaign.strike_unstruck_points),
    Stage(
        name="two pauses within commits with a service",
        schedules=interleavings.two_pauses_within_commits,
        needs=(Need.SERVICE,),
    ),
    Stage(name="later occurrences", schedules=single_faults.later_occurrences),
    Stage(
        name="every time at each line, with other parallelism, large batches",
        schedules=single_faults.every_time_at_lines,
    ),
    Stage(
        name="pauses that did not find their lines after other pauses",
        schedules=lambda campaign: single_faults.pauses_alone(campaign.results.coverage.unfired),
    ),
)
PROCESS_PLAN: Final[Plan] = (*HIGH_YIELD, *REGISTERED_FAULTS, *AT_LINES)

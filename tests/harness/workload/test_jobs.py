"""The jobs that certify sinks: their names, the names they had before, and what their sources hold."""

from __future__ import annotations

import string

import pytest

from sinkproof.chaos.schedule import FORMER_JOB_NAMES, STANDARD, Schedule, ScheduleError, parse
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.workload.job_names import SHARED_KEYS_JOB
from sinkproof.workload.jobs import EVERY_JOB, INPUTS, input_of, named_job, sentence_of
from sinkproof.workload.ledger import Ledger
from sinkproof.workload.made_jobs import made_job


@pytest.mark.parametrize(("former", "name"), FORMER_JOB_NAMES.items())
def test_a_schedule_with_the_former_name_of_a_job_is_read_and_written_with_its_name_of_today(
    former: str, name: str
) -> None:
    schedule = parse(f"job={former} seed=3 sink[0].commit.before#1=stop")
    assert name == schedule.job
    assert f"job={name} seed=3 sink[0].commit.before#1=stop" == str(schedule)
    assert parse(str(schedule)) == schedule
    assert named_job(schedule.job) is EVERY_JOB[name].job


def test_no_former_name_is_the_name_of_a_job_today() -> None:
    assert set() == FORMER_JOB_NAMES.keys() & EVERY_JOB.keys()


@pytest.mark.parametrize("name", EVERY_JOB)
def test_a_job_is_named_in_a_schedule_and_found_by_its_name(name: str) -> None:
    assert Schedule(job=name) == parse(f"job={name} no-fault")
    assert INPUTS[name] is input_of(name)


def test_every_job_but_the_standard_one_says_how_it_differs() -> None:
    sentences = [sentence_of(name) for name in EVERY_JOB if name != STANDARD]
    assert all(sentences)
    assert len(sentences) == len({*sentences})
    assert ["", "", ""] == [sentence_of(name) for name in (STANDARD, "made-2-3-12-2-4", "batches-40")]


def test_an_unknown_job_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ScheduleError, match="there is no job 'early'; known: standard, sparse"):
        named_job("early")


@pytest.mark.parametrize("name", EVERY_JOB)
def test_a_key_belongs_to_one_split_but_in_one_job(name: str) -> None:
    rows = Ledger(input_of(name)).rows.values()
    is_shared = len({(row.key, row.split) for row in rows}) > len({row.key for row in rows})
    assert is_shared is (name == SHARED_KEYS_JOB)


def test_two_jobs_joined_differ_from_the_standard_one_in_both_ways() -> None:
    joined, sparse, scale_in = named_job("sparse+scale-in"), named_job("sparse"), named_job("scale-in")
    assert input_of("sparse+scale-in") is input_of("sparse")
    assert joined.plan is sparse.plan
    assert joined.timing == sparse.timing
    assert joined.later is not None
    assert scale_in.later is not None
    assert joined.later.parallelism == scale_in.later.parallelism
    assert {subtask.source for subtask in joined.later.subtasks if subtask.source} == {input_of("sparse")}
    assert f"{sentence_of('sparse')}; and {sentence_of('scale-in')}" == sentence_of("sparse+scale-in")
    assert Schedule(job="sparse+scale-in") == parse("job=sparse+scale-in no-fault")
    late = named_job("sparse+zombie-late").timing
    assert (sparse.timing.pace, named_job("zombie-late").timing.suspended) == (late.pace, late.suspended)


@pytest.mark.parametrize("name", ["scale-in+sparse", "rebatched+scale-in", "sparse+two-sinks", "scale-in+scale-out"])
def test_jobs_that_differ_in_the_same_way_are_not_joined(name: str) -> None:
    with pytest.raises(ScheduleError, match="cannot be joined in this order"):
        named_job(name)


@pytest.mark.parametrize("name", ["sparse+early", "early+sparse"])
def test_each_of_two_joined_jobs_must_be_known(name: str) -> None:
    with pytest.raises(ScheduleError, match="there is no job 'early'"):
        named_job(name)


def test_after_a_restart_with_another_parallelism_the_next_one_has_the_first_again() -> None:
    job = named_job("scale-in-and-out")
    taken = CheckpointRecord(1, False, {}, job.plan.parallelism)
    assert job.plan_after(None, former=job.plan) is job.plan
    assert job.plan_after(taken, former=job.plan, restarted=True) is job.later
    assert job.later is not None
    assert job.plan_after(taken, former=job.later, restarted=True) is job.plan
    other = taken._replace(parallelism=job.later.parallelism)
    assert job.plan_after(other, former=job.plan, restarted=True) is job.plan


def test_a_made_job_is_cut_as_its_name_says() -> None:
    job, source = made_job("made-2-3-12-2-4")
    assert (2, 12, 2) == (source.splits, source.rows_per_split, source.batch_rows)
    assert 4 == job.configuration.checkpoint_every_batches


@pytest.mark.parametrize("base", [10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 1 << 16, 1 << 20, 1 << 24])
def test_a_number_made_of_split_and_offset_is_that_of_another_row_where_offsets_begin_late(base: int) -> None:
    identities = Ledger(input_of("twelve-of-both")).expected
    assert len(identities) == len({*identities}) > len({split * base + offset for split, offset in identities})


def test_numbers_of_splits_and_offsets_without_a_sign_between_are_those_of_other_rows() -> None:
    identities = Ledger(input_of("twelve-of-both")).expected
    assert len(identities) > len({f"{split}{offset}" for split, offset in identities})
    assert all(offset < 2**31 for _, offset in identities)


def test_keys_of_edge_cases_have_each_sign_and_the_beginnings_of_hidden_names() -> None:
    source = input_of("edge-case-values")
    rows = [
        row for split in (0, 1) for offset in range(0, source.length(split), 4) for row in source.batch(split, offset)
    ]
    keys = {row.key for row in rows}
    assert set(string.punctuation) <= {*"".join(keys)}
    assert {"", "_", "."} <= {key[:1] for key in keys}
    assert 101 > max(len(row.value) for row in rows) > 64 > max(len(row.key) for row in rows) > 60
    assert any(escaped in row.value for row in rows for escaped in ("\\n", "\\t", "\\r"))


def test_each_of_hundreds_of_keys_comes_again_behind_the_others() -> None:
    source = input_of("many-keys")
    first, again = ([row.key for row in source.batch(0, offset)] for offset in (0, 400))
    assert first == again
    assert 400 == len({*first})


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_keys_differ_outside_of_small_sets_of_signs(encoding: str) -> None:
    source = input_of("edge-case-values")
    keys = {row.key for offset in range(0, 48, 4) for row in source.batch(0, offset)}
    shown = [key.encode(encoding, errors="replace") for key in keys if all(ord(sign) < 0xFFFF for sign in key)]
    assert len(shown) > len({*shown}), "two keys are one where each other sign is a question mark"


def test_keys_differ_beyond_the_first_plane() -> None:
    source = input_of("edge-case-values")
    keys = {row.key for offset in range(0, 48, 4) for row in source.batch(0, offset)}
    high = {key for key in keys if any(ord(sign) > 0xFFFF for sign in key)}
    assert 1 < len(high)
    assert 1 == len({"".join(sign if ord(sign) <= 0xFFFF else "?" for sign in key) for key in high})

"""Batches of waiting requests: the oldest and those most like it; no job is lost, and a closed queue fails them all."""

import pytest

from actors.engine.backend import Message, Request, Situation
from actors.engine.batching import Job, JobQueue, similar_jobs
from envs import SCENARIOS
from sweeps.sampling import Sampling
from tests.envs.games import SAMPLES

pytestmark = pytest.mark.timeout(20)

SAMPLE = SAMPLES["ROD"]
STATE = SCENARIOS["ROD"].initial(SAMPLE)
SITUATION = Situation(SAMPLE, STATE, SCENARIOS["ROD"].view(SAMPLE, STATE))


def job(length, max_tokens=10, replies=()):
    return Job(Request((Message("user", "x" * length),), Sampling(max_tokens=max_tokens), 0, SITUATION), {}, replies)


def lengths(jobs):
    return [waiting.length for waiting in jobs]


def test_a_batch_is_the_oldest_job_and_the_nearest_of_its_kind():
    jobs = [job(100), job(900), job(104), job(90), job(100, max_tokens=20), job(101, replies=("A",))]

    assert lengths(similar_jobs(jobs, 3)) == [100, 104, 90] and lengths(similar_jobs(jobs, 1)) == [100]
    assert lengths(similar_jobs(jobs, 9)) == [100, 104, 90, 900]
    assert similar_jobs([], 3) == []


def test_replies_are_scored_alone():
    first, second = job(5, replies=("A", "B")), job(5, replies=("A", "B"))

    assert similar_jobs([first, second], 9) == [first]


def queue_of(*jobs):
    queue = JobQueue()
    for waiting in jobs:
        queue.put(waiting)
    return queue


def test_a_taken_batch_leaves_the_queue_and_can_be_put_back_to_its_front():
    jobs = [job(100), job(900), job(104)]
    queue = queue_of(*jobs)
    assert queue.has_batch(3) and queue.has_batch(1) and not queue.has_batch(4)
    batch = queue.take(2)
    assert batch == [jobs[0], jobs[2]] and queue.jobs == [jobs[1]] and not queue.has_batch(2)
    queue.put_back(batch)

    assert queue.jobs == [jobs[0], jobs[2], jobs[1]]


def test_jobs_of_cancelled_callers_are_dropped():
    jobs = [job(1), job(2), job(3)]
    jobs[1].answer.cancel()

    assert queue_of(*jobs).take(3) == [jobs[0], jobs[2]]


def test_two_kinds_make_no_full_batch():
    assert not queue_of(job(1), job(1, max_tokens=20)).has_batch(2)


def test_a_closed_queue_fails_waiting_jobs_and_refuses_others():
    first, second = ValueError("out of memory"), ValueError("later")
    waiting, cancelled, running = job(1), job(2), job(3)
    queue = queue_of(waiting, cancelled, running)
    cancelled.answer.cancel()
    running.answer.set_running_or_notify_cancel()
    queue.close(first)
    queue.close(second)

    assert waiting.answer.exception() is first and running.answer.exception() is first and cancelled.answer.cancelled()
    assert queue.take(3) == [] and queue.jobs == []
    for refused in (lambda: queue.put(job(1)), queue.check):
        with pytest.raises(ValueError, match="out of memory"):
            refused()
    late = job(4)
    queue.put_back([late])
    assert late.answer.exception() is first


def test_the_oldest_job_decides_the_kind_of_a_batch():
    jobs = [job(5), job(900, max_tokens=20), job(6, max_tokens=20), job(7)]

    assert lengths(similar_jobs(jobs, 9)) == [5, 7] and lengths(similar_jobs(jobs[1:], 9)) == [900, 6]
    assert lengths(similar_jobs([job(9), job(2), job(8)], 2)) == [9, 8]

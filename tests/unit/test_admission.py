"""How many requests are answered at once, by what the process was seen to do."""

from __future__ import annotations

from bursar.http.admission import BUSY, MOST, STEP, Admission


class Process:
    """A process that answers so many a second, looked at every second."""

    def __init__(self) -> None:
        self.admission = Admission()
        self.replies = 0

    def second(self, *, running: int, answered: int, shed: int = 0) -> int:
        self.replies += answered + shed
        self.admission.shed += shed
        self.admission.look(running, self.replies, seconds=1)
        return self.admission.most


class TestHowMany:
    def test_an_idle_process_takes_a_burst(self) -> None:
        process = Process()
        assert process.second(running=0, answered=0) == MOST
        assert process.admission.admits(MOST - 1)
        assert not process.admission.admits(MOST)

    def test_a_busy_one_takes_half_a_second_s_work(self) -> None:
        process = Process()
        assert process.second(running=MOST, answered=10) == MOST, "busy for a moment only"
        assert process.second(running=MOST, answered=200, shed=5000) == 100
        assert process.second(running=100, answered=220, shed=5000) == 110
        assert process.second(running=110, answered=9000) == 110 + STEP

    def test_fewer_as_long_as_answers_take_longer(self) -> None:
        """Many quick answers, refusals say, hide how slow the others are."""
        process = Process()
        process.second(running=MOST, answered=5000)
        seen = []
        for _ in range(3):
            process.admission.took(0.01)
            process.admission.took(0.9)
            seen.append(process.second(running=MOST, answered=5000))
        assert seen == [112, 78, BUSY]
        assert process.second(running=BUSY, answered=5000) == BUSY + STEP

    def test_never_less_than_a_few_and_all_again_once_it_is_over(self) -> None:
        process = Process()
        for _ in range(3):
            left = process.second(running=MOST, answered=1, shed=5000)
        assert left == BUSY
        assert process.second(running=BUSY - 1, answered=1) == MOST

    def test_whoever_waits_for_somebody_else_does_not_count(self) -> None:
        admission = Admission()
        with admission.away(), admission.away():
            assert admission.admits(MOST + 1)
            assert not admission.admits(MOST + 2)
        assert not admission.admits(MOST)

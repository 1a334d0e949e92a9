"""Room for requests in flight, shared by lanes: the first of each is free, and nobody keeps what others lack."""

from __future__ import annotations

import random

from bursar.events.lane import Lane, Room
from bursar.events.lanes import Hold


def lane(number: int = 1) -> Lane:
    return Lane(Hold(1001, f"webhook:{number}", 1), failing=False, marked=False)


class TestRoom:
    def test_the_first_request_of_a_lane_needs_none(self) -> None:
        room = Room(0)
        one, other = lane(1), lane(2)
        assert room.enter(one)
        assert room.enter(other)
        assert not room.enter(one)
        assert room.leave(one) is None
        assert room.enter(one)

    def test_what_was_left_can_be_taken_again(self) -> None:
        room = Room(2)
        one = lane()
        for _ in range(5):
            assert [room.enter(one) for _ in range(4)] == [True, True, True, False]
            for _ in range(3):
                room.leave(one)
            assert one.in_flight == 0

    def test_what_comes_free_goes_to_a_lane_with_clearly_less(self) -> None:
        room = Room(3)
        much, little = lane(1), lane(2)
        assert all(room.enter(much) for _ in range(4))
        assert room.enter(little)
        assert not room.enter(little)
        assert room.leave(much) is little
        assert room.enter(little)
        assert not room.enter(much)
        assert not room.enter(little)
        assert room.leave(much) is None, "two and two are fair"

    def test_shares_even_out_whoever_came_first(self) -> None:
        """Answers come in any order, and a lane takes as much as it is given."""
        dice = random.Random(7)
        room = Room(56)
        lanes = [lane(n) for n in range(8)]
        for each in lanes:
            while each.in_flight < 16 and room.enter(each):
                pass
        assert {each.in_flight for each in lanes} >= {16, 1}
        for _ in range(2000):
            [answered] = dice.choices(lanes, weights=[each.in_flight for each in lanes])
            other = room.leave(answered)
            for each in filter(None, (other, answered)):
                while each.in_flight < 16 and room.enter(each):
                    pass
            assert sum(each.in_flight for each in lanes) == 64
        assert all(6 <= each.in_flight <= 10 for each in lanes), [each.in_flight for each in lanes]

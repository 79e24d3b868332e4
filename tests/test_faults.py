"""What is wrong with a value, in words."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from simulacra.faults import faults_of
from simulacra.serialization import load_message


@pytest.mark.parametrize(
    ("saved", "says"),
    [
        ({"role": "user"}, "user.content: Field required"),
        ({"role": "user", "content": [{"type": "text"}]}, "user.content.0.text.text: Field required"),
        ({"role": "robot", "content": []}, "Input tag 'robot' found using 'role' does not match"),
    ],
)
def test_a_fault_has_its_place_and_no_remarks_of_the_library(saved, says):
    with pytest.raises(ValidationError) as caught:
        load_message(saved)

    told = faults_of(caught.value)
    assert told.startswith(says)
    assert "pydantic" not in told
    assert "\n" not in told


def test_of_many_faults_the_first_ones_are_told():
    with pytest.raises(ValidationError) as caught:
        load_message({"role": "user", "content": [{"type": "text"}] * 5})

    assert faults_of(caught.value).endswith("; 2 more")

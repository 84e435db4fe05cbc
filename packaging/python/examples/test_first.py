"""A first test: a guest that writes a byte to the debug-exit port."""

import avicenna


def test_the_guest_says_that_it_passed(avicenna_machine):
    passes = bytes.fromhex("b000 e6f4")  # mov al, 0; out 0F4h, al
    machine = avicenna_machine(avicenna.multiboot(passes), memory="16M")
    stop = machine.run(instructions=1000)
    assert stop.outcome is not None
    assert (stop.outcome.kind, stop.outcome.value) == ("debug-exit", 0)

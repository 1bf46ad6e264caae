"""Ctrl-C is noticed if a learner swallows the signal, and ends useless partial work."""

import os
import signal
import threading

import pytest

from tailboost.core.long_work import noticing_interrupts

pytestmark = pytest.mark.skipif(not hasattr(signal, "pause"), reason="needs POSIX signals")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()


def swallowing():
    """Behave like scikit-learn's multilayer perceptron at Ctrl-C."""
    try:
        interrupt()
    except KeyboardInterrupt:
        return "half trained"


def test_a_swallowed_interrupt_is_noticed():
    with noticing_interrupts() as interrupted:
        assert not interrupted()
        assert swallowing() == "half trained"
        assert interrupted()
    assert interrupted()  # also afterwards


def test_an_interrupt_is_still_a_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), noticing_interrupts() as interrupted:
        interrupt()
    assert interrupted()


def test_within_another_both_notice():
    with noticing_interrupts() as outer:
        with noticing_interrupts() as inner:
            swallowing()
        assert inner()
        assert outer()
        with noticing_interrupts() as later:
            pass
        assert not later()


@pytest.mark.parametrize("guard", [noticing_interrupts])
def test_what_was_there_before_is_there_again(guard):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), guard():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("guard", [noticing_interrupts])
def test_ignored_stays_ignored(guard):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with guard() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert interrupted is None or not interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("guard", [noticing_interrupts])
def test_nothing_happens_in_other_threads(guard):
    said = []

    def work():
        with guard() as interrupted:
            said.append(interrupted() if interrupted else False)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == [False]

"""Ctrl-C is noticed if a learner swallows the signal, and ends useless partial work."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

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


def test_an_interrupt_is_still_a_keyboard_interrupt_and_what_was_there_before_is_there_again():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), noticing_interrupts() as interrupted:
        interrupt()
    assert interrupted()
    assert signal.getsignal(signal.SIGINT) is before


def test_within_another_both_notice():
    with noticing_interrupts() as outer:
        with noticing_interrupts() as inner:
            swallowing()
        assert inner()
        assert outer()
        with noticing_interrupts() as later:
            pass
        assert not later()


def test_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noticing_interrupts() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert not interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def test_nothing_happens_in_other_threads():
    def work():
        with noticing_interrupts() as interrupted:
            return interrupted()

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(work).result() is False

# SPDX-License-Identifier: Apache-2.0
"""The end of the process. Its last step destroys what the library holds, which daemon threads may be using. So before the interpreter ends,
calls that run are waited for, and no other begins."""
import os
import threading
import weakref

_idle = threading.Condition()
_running = 0
_ended = False
_forked = False
_sessions = weakref.WeakSet()
_at_end = []


def ended():
    return _ended


def stop_thread():
    """Ends the calling thread without a message."""
    raise SystemExit("fusec was called while the interpreter ends")


class _Call:
    """A call of the library: `with CALL:`"""

    def __enter__(self):
        global _running
        with _idle:
            if _ended:
                stop_thread()
            _running += 1

    def __exit__(self, *_):
        global _running
        with _idle:
            _running -= 1
            if _running == 0:
                _idle.notify_all()


CALL = _Call()


def add_session(session):
    """Runs of a session are told by its lock, as counting them would cost as much as a small run."""
    with _idle:
        _sessions.add(session)


def at_end(function):
    """A decorator: the function is called when calls have been waited for, while all of Python can still be used."""
    _at_end.append(function)
    return function


def wait():
    """For atexit."""
    _wait_for_calls()
    for function in _at_end:
        function()


def _wait_for_calls():
    """In a process that was forked, the threads that held locks do not exist."""
    global _ended
    if _forked:
        return
    with _idle:
        _ended = True
        while _running:
            _idle.wait()
        sessions = list(_sessions)
    for session in sessions:
        session._busy.acquire()  # and never released


def _after_fork():
    global _idle, _running, _forked
    _idle, _running, _forked = threading.Condition(), 0, True


os.register_at_fork(after_in_child=_after_fork)

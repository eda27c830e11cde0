"""Runs a script with standard input as its controlling terminal: controlled.py SCRIPT ARGUMENT."""

import fcntl
import os
import signal
import sys
import termios

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests themselves run under nohup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])

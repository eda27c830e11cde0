"""Runs a script with standard input as its controlling terminal: controlled.py SCRIPT ARGUMENT."""

import fcntl
import os
import sys
import termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])

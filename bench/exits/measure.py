#!/usr/bin/env python3
"""usage: measure.py RUNS OUTPUT_PREFIX COMMAND... -- COMMAND... [-- ...]

Runs commands by turns and prints a line for each: median wall milliseconds from starting the process
to having its end, least CPU milliseconds, megabytes. Starting with posix_spawn and waiting with
wait4 adds what the system takes for a process and nothing else. What the last run of each command
printed is in OUTPUT_PREFIX0, OUTPUT_PREFIX1, ...; both streams, since some print tables on either.
Memory comes from a run of its own under /usr/bin/time: this process is larger than what it measures,
and a child's peak includes that of its parent before it started.
"""
import os
import subprocess
import sys
import time


def split(words):
    commands = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def once(command, output):
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    actions = [(os.POSIX_SPAWN_DUP2, file, stream) for stream in (1, 2)]
    begun = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
    _, _, usage = os.wait4(process, 0)
    wall = time.perf_counter() - begun
    os.close(file)
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def megabytes(command):
    said = subprocess.run(["/usr/bin/time", "-f", "%M", *command], capture_output=True, text=True)
    return int(said.stderr.splitlines()[-1]) / 1024


runs, prefix, commands = int(sys.argv[1]), sys.argv[2], split(sys.argv[3:])
measured = [[] for _ in commands]
for _ in range(runs):
    for number, command in enumerate(commands):
        measured[number].append(once(command, f"{prefix}{number}"))
for number, command in enumerate(commands):
    walls = sorted(wall for wall, _ in measured[number])
    least = min(cpu for _, cpu in measured[number])
    print(f"{walls[len(walls) // 2]:.2f} {least:.1f} {megabytes(command):.1f}")

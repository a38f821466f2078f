"""The naive way to resolve a selector, for comparison: ask every Pod.

One Pod in three is labelled app=web, and the selector is app=web. Prints a line
for each number of Pods: the number, how many match, nanoseconds for one scan.
"""

import time


def cluster(size):
    """Makes Pods as plain dictionaries."""
    pods = []
    for i in range(size):
        labels = {
            "tier": "frontend",
            "app": "web" if i % 3 == 0 else "other",
            "pod-template-hash": "h%d" % (i % 5),
        }
        pods.append({"name": "pod-%d" % i, "ip": "10.244.%d.%d" % (i // 256, i % 256), "labels": labels})
    return pods


def scan(pods, selector):
    """Returns the addresses of the Pods whose labels are a superset."""
    found = []
    for pod in pods:
        if all(pod["labels"].get(key) == value for key, value in selector.items()):
            found.append(pod["ip"])
    return found


def measure(pods, selector):
    """Returns the matches and the mean time of one scan over half a second."""
    matches, rounds, began = [], 0, time.perf_counter_ns()
    while rounds < 3 or time.perf_counter_ns() - began < 500_000_000:
        matches = scan(pods, selector)
        rounds += 1
    return len(matches), (time.perf_counter_ns() - began) / rounds


for size in (100, 1_000, 10_000, 100_000):
    matched, took = measure(cluster(size), {"app": "web"})
    print(size, matched, int(took))

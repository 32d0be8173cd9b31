"""`make bench`: every speed figure of the project in one run, ours beside the others'.

Prints seconds, peaks and ratios; nothing here is a test. Run: python -m bench [merge] [mmr] [preview] [start]
"""

import sys

from bench import merge_bench, mmr_bench, preview_bench, start_bench

PARTS = {"start": start_bench.run, "mmr": mmr_bench.main, "preview": preview_bench.run, "merge": merge_bench.run_all}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        print(f"== {name}", flush=True)
        PARTS[name]()

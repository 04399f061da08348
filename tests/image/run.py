"""make test-image: builds the box and its examples on a real engine, and tries what only a container can show.

usage: run.py [--only NAME,…] [--from-source | --program FILE] [--full]

Prints one line per case and `N passed, N failed` at the end; `SKIP engine: …` where no engine can run.
"""
from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import examples  # noqa: E402
import images  # noqa: E402
from box import build  # noqa: E402
from cases import CASES, Skip, the_programs_layer_is_small  # noqa: E402
from engine import Ended, Engine, NoEngine  # noqa: E402
from full import the_full_image  # noqa: E402

AT_ONCE = 3
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def play(engine: Engine, case) -> bool | None:
    """Whether it passed; nothing when it could not be tried."""
    start = time.monotonic()
    try:
        case(engine)
        wrong = None
    except Skip as why:
        print(f"SKIP image.{case.__name__}: {why}", flush=True)
        return None
    except Ended:
        return None
    except AssertionError as error:
        wrong = str(error) or traceback.format_exc(limit=-1)
    except Exception:  # noqa: BLE001 - a case that breaks is a failed case, and the others go on
        wrong = traceback.format_exc(limit=-3)
    line = f"{'FAILED' if wrong else 'ok':6} {case.__name__:42} {time.monotonic() - start:5.1f} s"
    print(f"{line}\n    {wrong}" if wrong else line, flush=True)
    return wrong is None


def stop(*_: object) -> None:
    """Ends in order: else containers and the engine would be left behind. Once, for a second signal would end that too."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit("ended by a signal")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="cases, separated by commas")
    parser.add_argument("--from-source", action="store_true", help="compile the program in the image, as it is shipped")
    parser.add_argument("--program", type=Path, help="a program that is already built, instead of the debug build")
    parser.add_argument("--full", action="store_true", help="the full image as well, which takes as long as all the rest")
    options = parser.parse_args()
    for number in SIGNALS:
        signal.signal(number, stop)
    shipped = options.from_source or options.program is not None
    known = [*examples.CASES, *CASES]
    known += [the_programs_layer_is_small] if shipped else []
    known += [the_full_image] if options.full else []
    cases = [case for case in known if not options.only or case.__name__ in options.only.split(",")]
    try:
        with Engine() as engine:
            images.box(engine, None if options.from_source else options.program or build())
            images.sizes(engine, images.BOX)
            pool = ThreadPoolExecutor(AT_ONCE)
            try:
                results = list(pool.map(lambda case: play(engine, case), cases))
                if os.environ.get("CI"):
                    # On a machine that others use too, a limit of time can be missed once.
                    results = [play(engine, case) if good is False else good for case, good in zip(cases, results, strict=True)]
            except SystemExit:
                engine.end()
                raise
            finally:
                pool.shutdown(cancel_futures=True)
                examples.stop_mock()
            if not shipped:
                print("SKIP image.size: the debug build is twice as large as what is shipped")
            if not options.full:
                print("SKIP image.full: it takes as long as all the rest; --full builds it")
    except NoEngine as why:
        print(f"SKIP engine: {why}\n\n0 passed, 0 failed")
        return 0
    print(f"\n{results.count(True)} passed, {results.count(False)} failed")
    return 1 if False in results else 0


if __name__ == "__main__":
    sys.exit(main())

"""llama.cpp's server on loopback: ``python llama_cpp_server.py WEIGHTS PORT``."""

import sys
import time

import xllamacpp  # type: ignore[import-not-found]


def main(weights: str, port: str) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = weights
    parameters.model_alias = {"smol"}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = int(port)
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    parameters.cache_prompt = (
        False  # with the cache or a second slot, 16 of 63 greedy replies differed from the first time
    )
    parameters.cpuparams.n_threads = 1  # threads that wait for each other by spinning stand still on a full machine
    server = xllamacpp.Server(parameters)
    while server:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])

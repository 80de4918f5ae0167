"""The parts of ``make gpu``, in the order in which they run: what is certain first, what takes long last."""

PARTS = {
    "driver": "the GPU check of a worker, against the real driver",
    "release": "memory given back after a process closes, and after kill -9",
    "architectures": "tiny checkpoints of nine architectures in their own dtype: ids and reply beside the package's call",
    "batch": "a batch of 16 against each request alone: equal replies, requests/s",
    "out-of-memory": "a batch that does not fit is halved, and every request is answered",
    "device-assert": "a device assert ends the engine with its reason",
    "ray": "models try on a checkpoint that asks for one GPU, through Ray and the real worker",
    "preprocessing": "pictures/s by threads and by processes",
    "busy": "share of time that the GPU computes while a worker plays episodes",
    "prefill": "random weights at real size: seconds and peak memory at 3k, 15k and 32k tokens",
    "decode": "tokens/s of 64 and of 256 requests side by side, random weights at real size",
}
"""Name -> what it shows."""

"""What the Hub says of a checkpoint before its weights are fetched: configuration, size and commit."""

from pathlib import Path

from actors.text.printable import first_line
from sweeps.checkpoint import Checkpoint, parse_config
from sweeps.own_model import WEIGHTS, Files
from sweeps.sweep_file import SweepError


def read_hub(source: str) -> Files:
    """Return the facts of a checkpoint on the Hub; raises SweepError if it cannot be read there."""
    try:
        from huggingface_hub import HfApi, hf_hub_download

        info = HfApi().model_info(source, files_metadata=True)
        config = parse_config(Path(hf_hub_download(source, "config.json", revision=info.sha)).read_bytes())
    except ModuleNotFoundError:
        raise SweepError(
            f"--model {source} is on the Hub, which needs a package: pip install 'proactive-sweep[hub]'"
        ) from None
    except Exception as problem:  # of huggingface_hub, of its HTTP client, of the disk
        reason = first_line(problem)
        raise SweepError(f"--model {source} cannot be read from the Hub ({reason}); name a folder instead") from None
    sizes = (file.size or 0 for file in info.siblings or () if file.rfilename.endswith(WEIGHTS))
    return Files(Checkpoint(config or {}), sum(sizes), info.sha or "")

"""Renders a chat template in its own process with limits: it is untrusted, and jinja's sandbox limits no nested loops."""

import re
import resource
import subprocess
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_S, BYTES = 5, 1 << 29
"""Most seconds of processor time and bytes of memory for one question."""


def find_template_fault(template: str) -> str:
    """Return why a template is refused: it exceeds a limit. Empty if it renders, or fails with an error that engines report."""
    command = [sys.executable, "-P", __file__]
    done = subprocess.run(command, input=template.encode("utf-8", "replace"), capture_output=True)
    if done.returncode >= 0 and not done.stderr.endswith(b"MemoryError\n"):
        return ""
    return f"its chat template takes more than {CPU_S} s or {BYTES >> 20} MiB for one question; correct or replace it"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    environment = ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"])
    tokens = ("bos_token", "eos_token", "pad_token", "unk_token")
    environment.globals.update(dict.fromkeys(tokens, ""), strftime_now=str)
    text = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", sys.stdin.read())  # a tag of transformers
    template = environment.from_string(text)
    for content in ([{"type": "image"}, {"type": "text", "text": "?"}], "?"):  # templates take parts, or only text
        try:
            template.render(messages=[{"role": "user", "content": content}], add_generation_prompt=True)
        except Exception as problem:  # the engine reports it; the other form may render
            if isinstance(problem, MemoryError):
                raise

"""Terms of use of the benchmark's pictures, as their sources state them; printed before a download.

Appendix G of the paper lists them too; docs/data-sources.md has the same table. This is not legal advice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Terms(NamedTuple):
    """The source of a scenario's pictures and its terms of use."""

    source: str
    address: str
    terms: str


UNSTATED = "no licence named there; ask its authors"
TERMS: dict[str, Terms] = {
    "ROD": Terms(
        "Realistic Occlusion Dataset",
        "https://huggingface.co/datasets/arielnlee/Realistic-Occlusion-Dataset",
        "a licence of its own (`other` on its card)",
    ),
    "VSOD": Terms("OcclusionDataSet-MM20", "https://junhua-liao.github.io/Occlusion-Detection/", UNSTATED),
    "MVP-N": Terms("MVP-N", "https://github.com/SMNUResearch/MVP-N", UNSTATED),
    "IN-C": Terms(
        "ImageNet-C", "https://zenodo.org/records/2235448", "CC BY 4.0; made of ImageNet, for non-commercial research"
    ),
    "QD": Terms("Quick, Draw!", "https://github.com/googlecreativelab/quickdraw-dataset", "CC BY 4.0"),
    "CIT": Terms("ChangeIt", "https://github.com/soCzech/ChangeIt", f"frames of YouTube videos; {UNSTATED}"),
    "COCO": Terms(
        "COCO 2014", "https://cocodataset.org/#termsofuse", "annotations CC BY 4.0; pictures under Flickr's terms"
    ),
}
"""Scenario -> terms."""


def describe_terms(scenarios: Iterable[str]) -> Iterator[str]:
    """Yield lines about the terms of these scenarios' pictures; unknown names are skipped."""
    yield "the pictures come from other data sets, each under terms of its own (docs/data-sources.md, paper appendix G):"
    for name in scenarios:
        if name in TERMS:
            source, address, terms = TERMS[name]
            yield f"  {name}: {source}, {terms}; {address}"

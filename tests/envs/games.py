"""Small valid samples of all seven scenarios, for tests that need a game and no data folder."""

from envs.types import Sample

ABSTENTION = "I cannot answer this question."
CATEGORIES = ("Skillet.", "Baseball.", "Banana.", "Screwdriver.")


def sample(
    scenario: str, options: tuple[str, ...], image: str, first: int, frames: int, reference: int, **extra
) -> Sample:
    return Sample(
        scenario,
        3,
        "What is it?",
        options,
        CATEGORIES,
        "Banana.",
        image,
        first,
        frames,
        reference,
        extra,
        f"d-{scenario}",
    )


SAMPLES = {
    "ROD": sample(
        "ROD", (ABSTENTION, "Move the blue blocks to the left.", "Move the blue blocks to the right."),
        "Realistic-Occlusion-Dataset/rod_1/banana/s{image}.jpg", 7, 14, 0,
    ),
    "VSOD": sample(
        "VSOD", ("Rewind the video.", "Wait for the occlusion to disappear.", ABSTENTION),
        "OcclusionDataSet-MM20/test/{image}.JPEG", 30, 60, 12, strong_occlusions=True,
    ),
    "MVP-N": sample(
        "MVP-N", ("Rotate the object.", ABSTENTION), "MVP-N/{informative}/{image}.png", 4, 4, 9, valid_images=[4, 2, 7, 9]
    ),
    "IN-C": sample(
        "IN-C", ("Deblur the image.", "Increase the contrast.", ABSTENTION), "ImageNet-C/{level}/a.JPEG", 5, 5, 1,
        quality_answer="Deblur the image.",
    ),
    "QD": sample("QD", ("Add more details.", ABSTENTION), "QuickDraw/banana/{image}.png", 0, 6, 5),
    "CIT": sample(
        "CIT", ("Rewind the video.", "Wait for the object to appear.", ABSTENTION), "ChangeIt/v/{image}.jpg", 10, 40, 31,
        step_size=5, max_steps=9,
    ),
    "COCO": sample(
        "COCO", ("Move the camera to the left.", "Move the camera up.", ABSTENTION), "coco2014/a.jpg", 0, 1, 0,
        direction="up_left", granularity=4, horizontal_step=10.5, vertical_step=7,
        crop={"top": 60, "left": 70, "height": 110, "width": 140.25},
    ),
}  # fmt: skip

"""Picture files of every kind that photographs, sketches and screenshots come in, drawn from one seeded picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageCms
from PIL.ExifTags import Base
from PIL.PngImagePlugin import PngInfo

WIDTH, HEIGHT = 90, 60


def draw_zoo(folder: Path) -> list[str]:
    """Write the files and return their names."""
    noise = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 4), dtype=np.uint8)
    rgba = Image.fromarray(noise)
    rgb = rgba.convert("RGB")
    _draw_oriented(folder, rgb)
    for mode in ("L", "LA", "1", "P", "RGBA", "I;16"):
        picture = Image.fromarray(noise[..., 0].astype(np.uint16) * 257) if mode == "I;16" else rgba.convert(mode)
        picture.save(folder / f"{mode.replace(';', '')}.png")
    rgb.quantize(16).save(folder / "palette-transparent.png", transparency=3)
    rgb.quantize(16).save(folder / "palette-alpha.png", transparency=bytes(range(0, 256, 16)))
    rgb.save(folder / "color-key.png", transparency=rgb.getpixel((0, 0)))
    rgb.convert("L").save(folder / "grey-key.png", transparency=0)
    rgb.convert("CMYK").save(folder / "cmyk.jpg")
    rgb.save(folder / "progressive.jpg", progressive=True)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    rgb.save(folder / "profile.jpg", icc_profile=profile)
    rgb.save(folder / "profile.png", icc_profile=profile)
    rgb.quantize(16).save(folder / "animated.gif", save_all=True, append_images=[rgb.rotate(180).quantize(16)])
    rgb.save(folder / "animated.webp", save_all=True, append_images=[rgb.rotate(180)], lossless=True)
    rgba.save(folder / "alpha.webp", lossless=True)
    rgb.save(folder / "plain.tiff")
    rgb.save(folder / "plain.bmp")
    rgb.save(folder / "plain.avif")
    rgb.save(folder / "plain.jp2")
    for width, height in ((1, 1), (1, 90), (90, 1), (57, 91), (12_000, 60)):
        rgb.resize((width, height)).save(folder / f"{width}x{height}.png")
    return sorted(path.name for path in folder.iterdir())


def _draw_oriented(folder: Path, rgb: Image.Image) -> None:
    """Write the picture with each EXIF orientation, in each place where a format keeps it."""
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[Base.Orientation] = orientation
        rgb.save(folder / f"exif-{orientation}.jpg", exif=exif)
    rgb.save(folder / "exif-6.png", exif=exif)
    rgb.save(folder / "exif-6.webp", exif=exif, lossless=True)
    rgb.save(folder / "exif-6.tiff", tiffinfo={Base.Orientation: 6})
    xmp = PngInfo()
    xmp.add_itxt("XML:com.adobe.xmp", '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="6"/></x:xmpmeta>')
    rgb.save(folder / "xmp-6.png", pnginfo=xmp)

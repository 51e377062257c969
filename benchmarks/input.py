"""CPU time and memory of reading, decoding and augmenting images on one rank; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

HEIGHT, WIDTH, SIZE = 375, 500, 224
BATCH_SIZE = 64
WAYS = ("tnt", "cut", "autoshard")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the input of one rank.")
    parser.add_argument("--images", type=int, default=2000, metavar="N")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], metavar="N")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120, help="deadline of one measurement")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add one line per row to FILE")
    parser.add_argument("--measure", nargs=3, metavar=("FOLDER", "WAY", "SIZE"), help="internal")
    return parser.parse_args()


def write_images(folder: Path, number: int) -> None:
    """JPEG files of smooth random pictures with some noise, as large as those of ImageNet."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    for index in range(number):
        coarse = random.uniform(0, 255, (8, 8, 3)).astype(np.float32)
        image = tf.image.resize(coarse, (HEIGHT, WIDTH), method="bicubic").numpy()
        image += random.normal(0, 8, image.shape)
        data = tf.io.encode_jpeg(np.clip(image, 0, 255).astype(np.uint8), quality=90)
        (folder / f"{index:06d}.jpg").write_bytes(data.numpy())


def make_pipeline(folder: Path):  # type: ignore[no-untyped-def]
    """The pipeline of the serial script: shuffle names, read, decode, augment, batch."""
    import tensorflow as tf

    paths = sorted(str(path) for path in folder.glob("*.jpg"))

    def load(path: tf.Tensor, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        seed = tf.stack([index, 7])
        image = tf.image.stateless_random_crop(image, [320, 320, 3], seed)
        image = tf.image.resize(image, [SIZE, SIZE])
        image = tf.image.stateless_random_flip_left_right(image, seed)
        image = tf.image.stateless_random_brightness(image, 32.0, seed)
        return image / 255.0, index

    dataset = tf.data.Dataset.from_tensor_slices((paths, list(range(len(paths)))))
    dataset = dataset.shuffle(len(paths), seed=1).map(load, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.batch(BATCH_SIZE).prefetch(2)


def part_of_first_rank(dataset, way: str, size: int):  # type: ignore[no-untyped-def]
    """What rank 0 of `size` reads, which has the largest part."""
    import tnt_data
    from tnt_data.slicing import slice_batches

    if way == "tnt":
        return tnt_data.distribute(dataset, 0, size)
    if way == "cut":
        return slice_batches(dataset, 0, size)
    if way == "autoshard":
        import tensorflow as tf
        from tensorflow.python.data.experimental.ops import distribute

        options = tf.data.Options()
        policy = tf.data.experimental.AutoShardPolicy.DATA
        options.experimental_distribute.auto_shard_policy = policy
        return distribute._AutoShardDataset(dataset.with_options(options), size, 0)
    return dataset


def measure(folder: Path, way: str, size: int) -> dict[str, float]:
    """CPU seconds of one pass over the files, and memory that reading has taken."""
    dataset = part_of_first_rank(make_pipeline(folder), way, size)
    for _ in dataset.take(2):  # optimises the pipeline and loads what it needs
        pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, num_steps = time.process_time(), 0
    for _ in dataset:
        num_steps += 1
    cpu_s = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "cpu_s": cpu_s,
        "steps": num_steps,
        "peak_mib": peak / 1024,
        "before_mib": before / 1024,
    }


def measure_in_a_process(folder: Path, way: str, size: int, seconds: float) -> dict[str, float]:
    """The same in a process of its own, as a rank is."""
    command = [sys.executable, __file__, "--measure", str(folder), way, str(size)]
    finished = subprocess.run(command, check=True, capture_output=True, timeout=seconds, text=True)
    result: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return result


def summarise(
    way: str, size: int, results: list[dict[str, float]], serial_s: float
) -> dict[str, object]:
    """One line of the report. The least time is that with the least disturbance."""
    times = [result["cpu_s"] for result in results]
    return {
        "way": way,
        "ranks": size,
        "cpu_s": round(min(times), 3),
        "spread_s": round(statistics.median(times) - min(times), 3),
        "of_serial": round(min(times) / serial_s, 3),
        "steps": int(results[0]["steps"]),
        "peak_mib": round(statistics.median(result["peak_mib"] for result in results)),
    }


def main() -> None:
    arguments = parse_arguments()
    if arguments.measure:
        folder, way, size = arguments.measure
        print(json.dumps(measure(Path(folder), way, int(size))))
        return
    cases = [("serial", 1), *((way, size) for size in arguments.ranks for way in WAYS)]
    results: dict[tuple[str, int], list[dict[str, float]]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder), arguments.images)
        # One after the other and again: what else the machine does then disturbs all alike.
        for _ in range(arguments.repetitions):
            for way, size in cases:
                result = measure_in_a_process(Path(folder), way, size, arguments.seconds)
                results[way, size].append(result)
    report(arguments, results)


def report(
    arguments: argparse.Namespace, results: dict[tuple[str, int], list[dict[str, float]]]
) -> None:
    serial_s = min(result["cpu_s"] for result in results["serial", 1])
    print(f"{arguments.images} images of {WIDTH}x{HEIGHT} on {platform.node()}")
    columns = ["way", "ranks", "cpu_s", "spread_s", "of_serial", "steps", "peak_mib"]
    print(" ".join(f"{column:>9}" for column in columns))
    for (way, size), of_case in results.items():
        line = summarise(way, size, of_case, serial_s)
        print(" ".join(f"{line[column]:>9}" for column in columns), flush=True)
        if arguments.json:
            with arguments.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line | {"images": arguments.images}) + "\n")


if __name__ == "__main__":
    main()

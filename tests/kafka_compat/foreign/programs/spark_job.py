"""The job of `spark.py`: `spark_job.py BOOTSTRAP JARS CHECKPOINT LIBRARY`, with a question and an answer a line."""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer until the input ends."""
    bootstrap, jars, checkpoint, library = sys.argv[1:]
    sys.path.insert(0, library)
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("foreign")
        .config("spark.jars", ",".join(str(jar) for jar in Path(jars).glob("*.jar")))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    place = {"kafka.bootstrap.servers": bootstrap}
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(spark, place, checkpoint, json.loads(line))) + "\n")
        sys.stdout.flush()


def answer(spark: Any, place: dict[str, str], checkpoint: str, question: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to one question."""
    match question["ask"]:
        case "batch":
            table = spark.range(question["records"]).selectExpr("cast(id as string) as value")
            table.write.format("kafka").options(**place, topic=question["topic"]).save()
            found = spark.read.format("kafka").options(**place, subscribe=question["topic"]).load()
            return {"found": found.select("value").distinct().count()}
        case "stream":
            source = spark.readStream.format("kafka").options(
                **place, subscribe=question["from"], startingOffsets="earliest"
            )
            sink = source.load().select("key", "value").writeStream.format("kafka")
            sink.options(**place, topic=question["to"], checkpointLocation=checkpoint).start()
            return {"started": True}
        case _:
            for query in spark.streams.active:
                query.stop()
            return {"stopped": True}


if __name__ == "__main__":
    main()

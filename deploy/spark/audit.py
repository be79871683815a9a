"""The audit for spark-submit and the Spark operator, which start a file: see docs/spark.md."""

import sys

from halfhitch_spark.audit.command import main

sys.exit(main())

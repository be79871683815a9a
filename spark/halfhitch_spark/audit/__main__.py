"""`python -m halfhitch_spark.audit`: on this machine. deploy/spark has it for spark-submit."""

import sys

from halfhitch_spark.audit.command import main

sys.exit(main())

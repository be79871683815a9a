#!/bin/sh
# Starts once it is told under which addresses clients know it: /tmp/advertised has the value of
# advertised.listeners. Which port of the machine leads here is known after the start only.
set -eu
told=/tmp/advertised
until [ -s "$told" ]; do sleep 0.05; done

# The last of two lines with the same name counts.
settings=/tmp/server.properties
cp /opt/kafka/server.properties "$settings"
printf '\nadvertised.listeners=%s\n' "$(cat "$told")" >>"$settings"

exec /opt/java/bin/java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
    -XX:+ExitOnOutOfMemoryError -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp '/opt/kafka/jars/*' kafka.Kafka "$settings"

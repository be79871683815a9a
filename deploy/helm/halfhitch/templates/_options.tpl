{{/*
Options of Kafka's client that are secrets or files, and where they belong; the words, or least and
most, that others may be; and numbers that are compared, with their defaults. Made by
tools/chart_options.py.
*/}}
{{- define "halfhitch.secretOptions" -}}
https.ca.location: secrets.kafkaOauthCa
sasl.kerberos.keytab: another sasl.mechanism, for Kerberos has files that no chart mounts
sasl.oauthbearer.client.secret: secrets.kafkaOauthClientSecret
sasl.password: secrets.kafkaPassword
ssl.ca.location: secrets.kafkaCa
ssl.certificate.location: secrets.kafkaCertificate
ssl.certificate.pem: secrets.kafkaCertificate, which brings the key along
ssl.crl.location: secrets.kafkaCrl
ssl.key.location: secrets.kafkaKey
ssl.key.password: secrets.kafkaKey, of a key without a password
ssl.key.pem: secrets.kafkaKey
ssl.keystore.location: secrets.kafkaCertificate and secrets.kafkaKey, in PEM
ssl.keystore.password: secrets.kafkaKey, of a key without a password
{{- end }}

{{- define "halfhitch.optionValues" -}}
batch.num.messages: [1, 1000000]
batch.size: [1, 2147483647]
broker.address.family: ["any", "v4", "v6"]
broker.address.ttl: [0, 86400000]
client.dns.lookup: ["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
compression.codec: ["none", "gzip", "snappy", "lz4", "zstd"]
compression.level: [-1, 12]
compression.type: ["none", "gzip", "snappy", "lz4", "zstd"]
connections.max.idle.ms: [0, 2147483647]
fetch.message.max.bytes: [1, 1000000000]
max.partition.fetch.bytes: [1, 1000000000]
metadata.max.age.ms: [1, 86400000]
retry.backoff.max.ms: [1, 300000]
retry.backoff.ms: [1, 300000]
sasl.mechanism: ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
sasl.mechanisms: ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
security.protocol: ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
socket.keepalive.enable: ["true", "false", "1", "0", "t", "f"]
socket.nagle.disable: ["true", "false", "1", "0", "t", "f"]
socket.receive.buffer.bytes: [0, 100000000]
socket.send.buffer.bytes: [0, 100000000]
{{- end }}

{{- define "halfhitch.defaults" -}}
messages.bytes_max: 1000000
messages.transaction_bytes_max: 33554432
owner.batch_bytes_max: 4000000
owner.payload_cache_bytes: 33554432
owner.transaction_timeout_ms: 15000
owner.hung_call_s: 30
ledger.horizon_s: 900
limits.undecided_max: 50000
limits.undecided_group_max: 25000
{{- end }}

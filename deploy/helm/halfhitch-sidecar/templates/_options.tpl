{{/*
Options of Kafka's client that are secrets or files, and where they belong, and numbers that are
compared, with their defaults; made by tools/charts.py.
*/}}
{{- define "halfhitch.secretOptions" -}}
https.ca.location: secrets.kafkaOauthCa
sasl.kerberos.keytab: another sasl.mechanism, for Kerberos has files that no chart mounts
sasl.oauthbearer.client.secret: secrets.kafkaOauthClientSecret
sasl.password: secrets.kafkaPassword
ssl.ca.location: secrets.kafkaCa
ssl.certificate.location: secrets.kafkaCertificate
ssl.crl.location: secrets.kafkaCrl
ssl.key.location: secrets.kafkaKey
ssl.key.password: secrets.kafkaKey, of a key without a password
ssl.key.pem: secrets.kafkaKey
ssl.keystore.location: secrets.kafkaCertificate and secrets.kafkaKey, in PEM
ssl.keystore.password: secrets.kafkaKey, of a key without a password
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

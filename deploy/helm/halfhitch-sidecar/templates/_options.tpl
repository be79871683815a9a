{{/*
Options of Kafka's client that are secrets, or files that the charts mount, and where they belong;
made by tools/charts.py.
*/}}
{{- define "halfhitch.secretOptions" -}}
sasl.oauthbearer.client.secret: secrets.kafkaOauthClientSecret
sasl.password: secrets.kafkaPassword
ssl.ca.location: secrets.kafkaCa
ssl.certificate.location: secrets.kafkaCertificate
ssl.key.location: secrets.kafkaKey
ssl.key.password: secrets.kafkaKey, of a key without a password
ssl.key.pem: secrets.kafkaKey
ssl.keystore.password: secrets.kafkaKey, of a key without a password
{{- end }}

{{/*
What the charts halfhitch and halfhitch-sidecar have in common. The file is the same in both, and a test
compares them. Every template here takes the chart's own values as its context, never the root.
*/}}

{{/* Settings that have a value of their own in the chart, or that hold a secret: what to use instead. */}}
{{- define "halfhitch.elsewhere" -}}
instance.id: nothing; it is the name of the pod
handle.key: secrets.handleKey
handle.key_file: secrets.handleKey
auth.tokens: secrets.authTokens
auth.token_file: secrets.authTokens
auth.identities_file: secrets.identities
redis.url: secrets.redisUrl
redis.url_file: secrets.redisUrl
checks.url_token: secrets.checksUrlToken
checks.url_token_file: secrets.checksUrlToken
rocketmq.access_keys: secrets.rocketmqAccessKeys
rocketmq.access_key_file: secrets.rocketmqAccessKeys
kafka.sasl_password_file: secrets.kafkaPassword
kafka.oauth_client_secret_file: secrets.kafkaOauthClientSecret
http.socket: transport, in the chart halfhitch-sidecar
{{- range $door := list "http" "admin" "rocketmq" }}
{{ $door }}.host: doors.{{ $door }}
{{ $door }}.port: doors.{{ $door }}.port
{{ $door }}.tls_cert: doors.{{ $door }}.tls.secretName
{{ $door }}.tls_key: doors.{{ $door }}.tls.secretName
{{ $door }}.tls_client_ca: doors.{{ $door }}.tls.secretName
{{ $door }}.tls_clients: doors.{{ $door }}.tls.clients
{{ $door }}.encrypted_in_front: doors.{{ $door }}.encryptedInFront
{{- end }}
rocketmq.enabled: doors.rocketmq.enabled
rocketmq.tls_required: doors.rocketmq.tls.secretName
{{- end }}

{{/* Secrets: the setting that names the file, and the file's name. */}}
{{- define "halfhitch.secretFiles" -}}
handleKey: {variable: HALFHITCH_HANDLE_KEY_FILE, file: handle-key}
authTokens: {variable: HALFHITCH_AUTH_TOKEN_FILE, file: auth-tokens}
identities: {variable: HALFHITCH_AUTH_IDENTITIES_FILE, file: identities.toml}
redisUrl: {variable: HALFHITCH_REDIS_URL_FILE, file: redis-url}
checksUrlToken: {variable: HALFHITCH_CHECKS_URL_TOKEN_FILE, file: checks-url-token}
rocketmqAccessKeys: {variable: HALFHITCH_ROCKETMQ_ACCESS_KEY_FILE, file: rocketmq-access-keys}
kafkaPassword: {variable: HALFHITCH_KAFKA_SASL_PASSWORD_FILE, file: kafka-password}
kafkaOauthClientSecret: {variable: HALFHITCH_KAFKA_OAUTH_CLIENT_SECRET_FILE, file: kafka-oauth-client-secret}
kafkaOauthCa: {option: https.ca.location, file: https-ca-location}
kafkaCa: {option: ssl.ca.location, file: kafka-ca.pem}
kafkaCrl: {option: ssl.crl.location, file: ssl-crl-location}
kafkaCertificate: {option: ssl.certificate.location, file: kafka-certificate.pem}
kafkaKey: {option: ssl.key.location, file: kafka-key.pem}
{{- end }}

{{/* Secrets for Kafka, and the word of a security protocol that heeds each. */}}
{{- define "halfhitch.heededBy" -}}
kafkaPassword: sasl
kafkaOauthClientSecret: sasl
kafkaOauthCa: sasl
kafkaCa: ssl
kafkaCrl: ssl
kafkaCertificate: ssl
kafkaKey: ssl
{{- end }}

{{/* The security protocol that Kafka's client comes to use: what MSK's IAM wants, where nothing else is said. */}}
{{- define "halfhitch.protocol" -}}
{{- $kafka := .settings.kafka | default dict -}}
{{- $default := ternary "plaintext" "sasl_ssl" (empty $kafka.msk_iam_region) -}}
{{ index ($kafka.options | default dict) "security.protocol" | default $default | toString | lower }}
{{- end }}

{{/* How Kafka's client signs in; nothing where it does not. */}}
{{- define "halfhitch.mechanism" -}}
{{- $kafka := .settings.kafka | default dict -}}
{{- $options := $kafka.options | default dict -}}
{{- $default := ternary "" "OAUTHBEARER" (empty $kafka.msk_iam_region) -}}
{{ index $options "sasl.mechanism" | default (index $options "sasl.mechanisms") | default $default | toString | upper }}
{{- end }}

{{/* Secrets for Kafka that another way to sign in makes idle, with blanks around each. */}}
{{- define "halfhitch.idle" -}}
{{- if ne (include "halfhitch.mechanism" .) "OAUTHBEARER" }} kafkaOauthClientSecret kafkaOauthCa {{ else -}}
{{- ternary " kafkaPassword " " kafkaPassword kafkaOauthClientSecret kafkaOauthCa " (empty .settings.kafka.msk_iam_region) -}}
{{- end -}}
{{- end }}

{{/* The secrets that are there and heeded: a file that its protocol ignores would keep a sidecar from starting. */}}
{{- define "halfhitch.heeded" -}}
{{- $words := fromYaml (include "halfhitch.heededBy" .) -}}
{{- $protocol := include "halfhitch.protocol" . -}}
{{- $idle := include "halfhitch.idle" . -}}
{{- $heeded := dict -}}
{{- $off := ternary "" "rocketmqAccessKeys" ((.doors.rocketmq | default dict).enabled | default false) -}}
{{- range $name, $secret := omit .secrets $off -}}
{{- if and $secret.secretName (contains (index $words $name | default "") $protocol) (not (contains (printf " %s " $name) $idle)) -}}
{{- $_ := set $heeded $name $secret -}}
{{- end -}}
{{- end -}}
{{- toYaml $heeded -}}
{{- end }}

{{/* What is wrong with values that both charts have. Fails with a sentence, or gives nothing. */}}
{{- define "halfhitch.check" -}}
{{- $elsewhere := fromYaml (include "halfhitch.elsewhere" .) -}}
{{- range $group, $settings := .settings -}}
{{- range $name, $value := $settings -}}
{{- $key := printf "%s.%s" $group $name -}}
{{- with index $elsewhere $key -}}
{{- fail (printf "settings.%s cannot be given here: use %s." $key .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $kafka := .settings.kafka | default dict -}}
{{- range $name, $place := fromYaml (include "halfhitch.secretOptions" .) -}}
{{- if hasKey ($kafka.options | default dict) $name -}}
{{- fail (printf "settings.kafka.options has %s, which is a secret or a file: use %s." $name $place) -}}
{{- end -}}
{{- end -}}
{{- if not .secrets.handleKey.secretName -}}
{{- fail "secrets.handleKey.secretName is not set: every instance signs handles with the same key, in all namespaces. Make it once (halfhitch keygen > handle-key), and in each namespace a secret of that file: kubectl create secret generic halfhitch --from-file=handle-key" -}}
{{- end -}}
{{- if ne (empty .secrets.kafkaCertificate.secretName) (empty .secrets.kafkaKey.secretName) -}}
{{- fail "secrets.kafkaCertificate and secrets.kafkaKey belong together: set the secretName of both, or of neither." -}}
{{- end -}}
{{- include "halfhitch.checkApart" . -}}
{{- include "halfhitch.checkImage" .image -}}
{{- include "halfhitch.checkExtraEnv" .extraEnv -}}
{{- include "halfhitch.checkAmounts" (list "resources" .resources) -}}
{{- $ports := dict -}}
{{- range $name, $door := omit .doors "bind" -}}
{{- if or (ne $name "rocketmq") $door.enabled -}}
{{- $port := toString (int $door.port) -}}
{{- if eq $port "0" -}}
{{- fail (printf "doors.%s.port is 0, a port that nobody could know: leave it out, or give one from 1 to 65535." $name) -}}
{{- end -}}
{{- with index $ports $port -}}
{{- fail (printf "doors.%s.port and doors.%s.port are both %s: each door needs a port of its own." . $name $port) -}}
{{- end -}}
{{- $_ := set $ports $port $name -}}
{{- end -}}
{{- if and (ne $door.tls.clients "off") (not $door.tls.secretName) -}}
{{- fail (printf "doors.%s.tls.clients is %s without doors.%s.tls.secretName: name a secret of type kubernetes.io/tls that has ca.crt as well." $name $door.tls.clients $name) -}}
{{- end -}}
{{- if and $door.encryptedInFront $door.tls.secretName -}}
{{- fail (printf "doors.%s.encryptedInFront is true and doors.%s.tls.secretName is set: keep the one that encrypts." $name $name) -}}
{{- end -}}
{{- end -}}
{{- if eq .doors.admin.tls.clients "required" -}}
{{- fail "doors.admin.tls.clients is required, but probes have no certificate: set it to wanted." -}}
{{- end -}}
{{- end }}

{{/*
Whether brokers can be reached as they are named, and each secret for them is heeded by somebody. Context: a list, for
each kind of sidecar, of a mapping of `place` (where its settings are written) and `values`.
*/}}
{{- define "halfhitch.checkKafka" -}}
{{- $protocols := list -}}
{{- $mechanisms := list -}}
{{- $heeded := dict -}}
{{- range . -}}
{{- $place := .place -}}
{{- $bootstrap := (.values.settings.kafka | default dict).bootstrap -}}
{{- if not $bootstrap -}}
{{- fail "settings.kafka.bootstrap is not set: name the brokers, for example kafka-bootstrap.kafka.svc:9092." -}}
{{- end -}}
{{- range $broker := splitList "," $bootstrap -}}
{{- if not (regexMatch "^([[][0-9A-Fa-f:.]+[]]|[A-Za-z0-9._-]+):[0-9]{1,5}$" (trim $broker)) -}}
{{- fail (printf "%s.kafka.bootstrap has %q, which is not host:port: write for example kafka-1:9092,kafka-2:9092." $place (trim $broker)) -}}
{{- end -}}
{{- $port := regexFind "[0-9]+$" (trim $broker) | atoi -}}
{{- if or (lt $port 1) (gt $port 65535) -}}
{{- fail (printf "%s.kafka.bootstrap has %s, and a port is from 1 to 65535: write for example kafka-1:9092." $place (trim $broker)) -}}
{{- end -}}
{{- end -}}
{{- $protocols = append $protocols (include "halfhitch.protocol" .values) -}}
{{- $mechanisms = append $mechanisms (include "halfhitch.mechanism" .values | default "none") -}}
{{- $heeded = merge $heeded (fromYaml (include "halfhitch.heeded" .values)) -}}
{{- end -}}
{{- $secrets := (first .).values.secrets -}}
{{- range $name, $word := fromYaml (include "halfhitch.heededBy" .) -}}
{{- if and (index $secrets $name).secretName (not (contains $word (join " " $protocols))) -}}
{{- fail (printf "secrets.%s is set, and would go unheard with security.protocol %s: set settings.kafka.options security.protocol to SASL_SSL or SSL." $name (join " and " (uniq $protocols))) -}}
{{- end -}}
{{- if and (index $secrets $name).secretName (not (hasKey $heeded $name)) -}}
{{- fail (printf "secrets.%s is set, and would go unheard with sasl.mechanism %s%s: remove it, or set settings.kafka.options sasl.mechanism to %s." $name (join " and " (uniq $mechanisms)) (ternary " of settings.kafka.msk_iam_region" "" (and (ne $name "kafkaPassword") (has "OAUTHBEARER" $mechanisms))) (ternary "SCRAM-SHA-512 or another with a password" "OAUTHBEARER" (eq $name "kafkaPassword"))) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* One text for two purposes: whoever is told it for the one could do the other. Context: the values. */}}
{{- define "halfhitch.checkApart" -}}
{{- $seen := dict -}}
{{- $secrets := dict "metrics.token" .metrics.token -}}
{{- range list "handleKey" "authTokens" "identities" "redisUrl" "checksUrlToken" "rocketmqAccessKeys" "kafkaPassword" "kafkaOauthClientSecret" -}}
{{- $_ := set $secrets (printf "secrets.%s" .) (index $.secrets .) -}}
{{- end -}}
{{- $tokens := list "metrics.token" "secrets.authTokens" "secrets.checksUrlToken" -}}
{{- range $name, $secret := $secrets -}}
{{- if $secret.secretName -}}
{{- $text := printf "%s/%s" $secret.secretName $secret.key -}}
{{- $other := index $seen $text -}}
{{- if and $other (not (and (has $name $tokens) (has $other $tokens))) -}}
{{- fail (printf "%s and %s are both the key %s of the secret %s, so that who is given the one has the other: give each a key of its own." $other $name $secret.key $secret.secretName) -}}
{{- end -}}
{{- $_ := set $seen $text $name -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "halfhitch.checkImage" -}}
{{- if not .repository -}}
{{- fail "image.repository is empty: name where the image comes from, such as registry.example.com/halfhitch." -}}
{{- end -}}
{{- if regexMatch "@|:[^/]*$" .repository -}}
{{- fail (printf "image.repository is %s, which has a tag or digest in it: put that into image.tag or image.digest." .repository) -}}
{{- end -}}
{{- if not (regexMatch "^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" .repository) -}}
{{- fail (printf "image.repository is %q, which no image can be called: write it as registry.example.com/halfhitch, in small letters." .repository) -}}
{{- end -}}
{{- if not (or (kindIs "string" .tag) (kindIs "invalid" .tag)) -}}
{{- fail (printf "image.tag is %s and no text: write it in quotes, or give it with --set-string." (toJson .tag)) -}}
{{- end -}}
{{- if not (or .tag .digest) -}}
{{- fail "image.tag and image.digest are both empty: set one of them." -}}
{{- end -}}
{{- end }}

{{/* An amount as Kubernetes writes it, as a number. Context: 256Mi, 0.5, 250m. */}}
{{- define "halfhitch.amount" -}}
{{- $text := include "halfhitch.text" . -}}
{{- $unit := regexFind "([KMGTPE]i|[numkMGTPE])$" $text -}}
{{- $factors := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
  "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- mulf (float64 (trimSuffix $unit $text)) (float64 (index $factors $unit | default 1)) -}}
{{- end }}

{{/* An API server makes no pod that asks for more than it may have. Context: a list of [where it stands, resources]. */}}
{{- define "halfhitch.checkAmounts" -}}
{{- $resources := index . 1 | default dict -}}
{{- $limits := $resources.limits | default dict -}}
{{- $place := index . 0 -}}
{{- range $name, $request := $resources.requests -}}
{{- $limit := index $limits $name -}}
{{- if not (or (kindIs "invalid" $request) (kindIs "invalid" $limit)) -}}
{{- if gt (float64 (include "halfhitch.amount" $request)) (float64 (include "halfhitch.amount" $limit)) -}}
{{- fail (printf "%s.requests.%s is %v, more than %s.limits.%s, which is %v: raise the limit, or ask for less." $place $name $request $place $name $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (kindIs "invalid" $limits.memory) -}}
{{- if lt (float64 (include "halfhitch.amount" $limits.memory)) (float64 (include "halfhitch.amount" "64Mi")) -}}
{{- fail (printf "%s.limits.memory is %v, which is too little for a sidecar or coordinator: give 64Mi or more (a unit such as Mi belongs to it)." $place $limits.memory) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "halfhitch.checkExtraEnv" -}}
{{- $names := dict -}}
{{- range . -}}
{{- if eq .name "HALFHITCH_CONFIG" -}}
{{- fail "extraEnv has HALFHITCH_CONFIG, which names a file, and no pod has it mounted: put settings below settings and doors, and secrets below secrets." -}}
{{- end -}}
{{- if and (hasPrefix "HALFHITCH_" .name) (ne .name "HALFHITCH_CACHE_DIR") -}}
{{- fail (printf "extraEnv has %s, and what the chart gives would go unheard: put settings below settings and doors, and secrets below secrets." .name) -}}
{{- end -}}
{{- if hasKey $names .name -}}
{{- fail (printf "extraEnv has %s twice: keep one." .name) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- if not (or (kindIs "string" .value) (kindIs "invalid" .value)) -}}
{{- fail (printf "extraEnv has %s with the value %s, which is no text: write it in quotes." .name (toJson .value)) -}}
{{- end -}}
{{- if and .value .valueFrom -}}
{{- fail (printf "extraEnv has %s with value and valueFrom: keep one." .name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
Values that somebody took away by null, and that the templates cannot do without. Context: a list of [values, a mapping of
paths to defaults].
*/}}
{{- define "halfhitch.checkNeeded" -}}
{{- $values := index . 0 -}}
{{- range $path, $default := index . 1 -}}
{{- $at := $values -}}
{{- range splitList "." $path -}}
{{- $at = index $at . -}}
{{- end -}}
{{- if kindIs "invalid" $at -}}
{{- fail (printf "%s is null or missing: leave its line out, and it is %s. After helm upgrade --reuse-values, which knows no newer values, use --reset-then-reuse-values." $path (ternary "what the chart says" (toJson $default) (kindIs "invalid" $default))) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Doors that other pods reach: each needs a lock and encryption. Context: a list of [values, names]. */}}
{{- define "halfhitch.checkDoors" -}}
{{- $values := index . 0 -}}
{{- range $name := index . 1 -}}
{{- $door := index $values.doors $name -}}
{{- if and (not $door.tls.secretName) (not $door.encryptedInFront) -}}
{{- fail (printf "doors.%s is reached by other pods, and nothing encrypts it: set doors.%s.tls.secretName to a secret of type kubernetes.io/tls, or, where a mesh encrypts, doors.%s.encryptedInFront to true." $name $name $name) -}}
{{- end -}}
{{- if and (eq $name "admin") ($values.settings.http | default dict).hosts -}}
{{- fail "settings.http.hosts is set and doors.admin.exposed is true, but probes and Prometheus call a pod by its address: remove settings.http.hosts (beyond loopback the token keeps strangers out), or set doors.admin.exposed to false." -}}
{{- end -}}
{{- if eq $name "rocketmq" -}}
{{- if not $values.secrets.rocketmqAccessKeys.secretName -}}
{{- fail "doors.rocketmq is reached by other pods without access keys: set secrets.rocketmqAccessKeys.secretName to a secret with pairs access:secret, one a line." -}}
{{- end -}}
{{- else if not (or $values.secrets.authTokens.secretName $values.secrets.identities.secretName) -}}
{{- fail (printf "doors.%s is reached by other pods without a token: set secrets.authTokens.secretName (kubectl create secret generic halfhitch-tokens --from-literal=auth-tokens=\"$(halfhitch keygen)\"), or secrets.identities.secretName." $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Whoever scrapes needs a token that a file of identities does not give it. */}}
{{- define "halfhitch.checkScrape" -}}
{{- if and .secrets.identities.secretName (not .secrets.authTokens.secretName) (not .metrics.token.secretName) -}}
{{- fail "Metrics are scraped, and Prometheus has no token: with secrets.identities each caller has its own. Put one of an identity with the right observe into a secret, and name that as metrics.token.secretName." -}}
{{- end -}}
{{- end }}

{{- define "halfhitch.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag }}
{{- end -}}
{{- end }}

{{/* One value of a setting as the environment has it. */}}
{{- define "halfhitch.text" -}}
{{- if kindIs "slice" . -}}{{ join "," . }}{{- else if kindIs "string" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end }}

{{/* Environment: the settings, and the files that hold secrets. */}}
{{- define "halfhitch.env" -}}
{{- $options := dict -}}
{{- range $name, $value := (.settings.kafka | default dict).options -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $options $name $value -}}{{- end -}}
{{- end -}}
{{- $files := fromYaml (include "halfhitch.secretFiles" .) -}}
{{- $secrets := fromYaml (include "halfhitch.heeded" .) -}}
{{- range $name, $file := $files -}}
{{- if and (hasKey $secrets $name) $file.option -}}
{{- $_ := set $options $file.option (printf "/etc/halfhitch/secrets/%s" $file.file) -}}
{{- end -}}
{{- end -}}
- name: HALFHITCH_INSTANCE_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- range $group, $settings := .settings }}
{{- range $name, $value := $settings }}
{{- /* An empty list is none: as a text it would be one with an empty item. */}}
{{- $isThere := not (or (kindIs "invalid" $value) (and (kindIs "slice" $value) (empty $value))) }}
{{- if and $isThere (ne (printf "%s.%s" $group $name) "kafka.options") }}
- name: HALFHITCH_{{ upper $group }}_{{ upper $name }}
  value: {{ include "halfhitch.text" $value | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with $options }}
- name: HALFHITCH_KAFKA_OPTIONS
  value: {{ toJson . | quote }}
{{- end }}
{{- range $name, $file := $files }}
{{- if and (hasKey $secrets $name) $file.variable }}
- name: {{ $file.variable }}
  value: /etc/halfhitch/secrets/{{ $file.file }}
{{- end }}
{{- end }}
{{- end }}

{{/* Environment: one door. Context: a list of [values, door, address]. */}}
{{- define "halfhitch.doorEnv" -}}
{{- $name := index . 1 -}}
{{- $door := index (index . 0).doors $name -}}
{{- $prefix := printf "HALFHITCH_%s" (upper $name) -}}
- name: {{ $prefix }}_HOST
  value: {{ index . 2 | quote }}
- name: {{ $prefix }}_PORT
  value: {{ $door.port | quote }}
{{- if $door.tls.secretName }}
- name: {{ $prefix }}_TLS_CERT
  value: /etc/halfhitch/tls/{{ $name }}/tls.crt
- name: {{ $prefix }}_TLS_KEY
  value: /etc/halfhitch/tls/{{ $name }}/tls.key
{{- if ne $door.tls.clients "off" }}
- name: {{ $prefix }}_TLS_CLIENT_CA
  value: /etc/halfhitch/tls/{{ $name }}/ca.crt
- name: {{ $prefix }}_TLS_CLIENTS
  value: {{ $door.tls.clients }}
{{- end }}
{{- if eq $name "rocketmq" }}
- name: {{ $prefix }}_TLS_REQUIRED
  value: "true"
{{- end }}
{{- end }}
{{- if $door.encryptedInFront }}
- name: {{ $prefix }}_ENCRYPTED_IN_FRONT
  value: "true"
{{- end }}
{{- end }}

{{/* Volumes with secrets, readable by the sidecar whatever its user is. */}}
{{- define "halfhitch.secretVolume" -}}
{{- $secrets := fromYaml (include "halfhitch.heeded" .) -}}
- name: halfhitch-secrets
  projected:
    defaultMode: 0444
    sources:
      {{- range $name, $file := fromYaml (include "halfhitch.secretFiles" .) }}
      {{- with index $secrets $name }}
      - secret:
          name: {{ .secretName | quote }}
          items:
            - key: {{ .key | quote }}
              path: {{ $file.file }}
      {{- end }}
      {{- end }}
{{- end }}

{{- define "halfhitch.volumes" -}}
{{- include "halfhitch.secretVolume" . }}
{{- range $name, $door := omit .doors "bind" }}
{{- if and $door.tls.secretName (or (ne $name "rocketmq") $door.enabled) }}
- name: halfhitch-tls-{{ $name }}
  secret:
    secretName: {{ $door.tls.secretName | quote }}
    defaultMode: 0444
{{- end }}
{{- end }}
{{- end }}

{{- define "halfhitch.volumeMounts" -}}
- name: halfhitch-secrets
  mountPath: /etc/halfhitch/secrets
  readOnly: true
{{- range $name, $door := omit .doors "bind" }}
{{- if and $door.tls.secretName (or (ne $name "rocketmq") $door.enabled) }}
- name: halfhitch-tls-{{ $name }}
  mountPath: /etc/halfhitch/tls/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{/* Where an API server mounts the pod's token, unless something is mounted there already: nothing of the sidecar's. */}}
{{- define "halfhitch.noTokenMount" -}}
- name: halfhitch-no-token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end }}

{{- define "halfhitch.noTokenVolume" -}}
- name: halfhitch-no-token
  emptyDir: {}
{{- end }}

{{/* What the restricted pod security profile asks for, and a read-only root. */}}
{{- define "halfhitch.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsNonRoot: true
{{- with .runAsUser }}
runAsUser: {{ int64 . }}
{{- end }}
{{- with .runAsGroup }}
runAsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* How a probe asks. Context: a list of [values, path, whether the admin door is reached by the kubelet]. */}}
{{- define "halfhitch.probeAction" -}}
{{- if index . 2 -}}
httpGet:
  path: /{{ index . 1 }}
  port: admin
  {{- if (index . 0).doors.admin.tls.secretName }}
  scheme: HTTPS
  {{- end }}
{{- else -}}
exec:
  command: [halfhitch, healthcheck, {{ index . 1 }}]
{{- end -}}
{{- end }}

{{/*
Probes. Starting and being alive do not depend on Kafka: restarting the sidecar brings no broker back. Being
ready does. Context: a list of [values, whether the admin door is reached by the kubelet].
*/}}
{{- define "halfhitch.probes" -}}
{{- $values := index . 0 -}}
startupProbe:
  {{- include "halfhitch.probeAction" (list $values $values.probes.startup.path (index . 1)) | nindent 2 }}
  {{- omit $values.probes.startup "path" | toYaml | nindent 2 }}
livenessProbe:
  {{- include "halfhitch.probeAction" (list $values "livez" (index . 1)) | nindent 2 }}
  {{- toYaml $values.probes.liveness | nindent 2 }}
{{- if $values.probes.readiness.enabled }}
readinessProbe:
  {{- include "halfhitch.probeAction" (list $values "readyz" (index . 1)) | nindent 2 }}
  {{- omit $values.probes.readiness "enabled" | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{/* How Prometheus gets in: the token, and TLS. It does not verify the certificate: pods have no names of their own. */}}
{{- define "halfhitch.scrape" -}}
{{- if .doors.admin.tls.secretName -}}
scheme: https
tlsConfig:
  insecureSkipVerify: true
{{- else -}}
scheme: http
{{- end }}
{{- if .metrics.token.secretName }}
authorization:
  credentials:
    name: {{ .metrics.token.secretName | quote }}
    key: {{ .metrics.token.key | quote }}
{{- else }}
{{- if .secrets.authTokens.secretName }}
authorization:
  credentials:
    name: {{ .secrets.authTokens.secretName | quote }}
    key: {{ .secrets.authTokens.key | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "halfhitch.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "halfhitch.fullname" -}}
{{- $name := include "halfhitch.name" . -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ .Values.fullnameOverride | default $both | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "halfhitch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "halfhitch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: coordinator
{{- end }}

{{- define "halfhitch.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "halfhitch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "halfhitch.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "halfhitch.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{/* Everything that can be wrong with the values, before anything is rendered. */}}
{{- define "halfhitch.checkAll" -}}
{{- $values := .Values -}}
{{- include "halfhitch.check" $values -}}
{{- if $values.coordinators.enabled -}}
{{- $doors := list "http" -}}
{{- if $values.doors.admin.exposed -}}{{- $doors = append $doors "admin" -}}{{- end -}}
{{- if $values.doors.rocketmq.enabled -}}{{- $doors = append $doors "rocketmq" -}}{{- end -}}
{{- include "halfhitch.checkDoors" (list $values $doors) -}}
{{- end -}}
{{- if or $values.metrics.serviceMonitor $values.metrics.podMonitor -}}
{{- if not $values.coordinators.enabled -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor are for coordinators, and coordinators.enabled is false: set them to false." -}}
{{- end -}}
{{- if not $values.doors.admin.exposed -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor need doors.admin.exposed: Prometheus cannot reach a door on the pod's loopback." -}}
{{- end -}}
{{- include "halfhitch.checkScrape" $values -}}
{{- end -}}
{{- if and $values.metrics.serviceMonitor $values.metrics.podMonitor -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor are both true: every sample would be there twice. Keep one." -}}
{{- end -}}
{{- with $values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas (%d) is larger than autoscaling.maxReplicas (%d)." (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- $resources := $values.resources | default dict -}}
{{- if and .enabled (not (dig "requests" "cpu" "" $resources)) (not (dig "limits" "cpu" "" $resources)) -}}
{{- fail "autoscaling.enabled is true, and resources.requests.cpu is not set: its target is a share of that." -}}
{{- end -}}
{{- end -}}
{{- with $values.podDisruptionBudget -}}
{{- if and .enabled (has (toString .maxUnavailable) (list "0" "0%")) -}}
{{- fail "podDisruptionBudget.maxUnavailable is 0, so that no node could be drained: set it to 1 or more." -}}
{{- end -}}
{{- end -}}
{{- include "halfhitch.checkLabels" $values -}}
{{- if $values.coordinators.enabled -}}
{{- if or (hasPrefix "127." $values.doors.bind) (eq $values.doors.bind "::1") -}}
{{- fail (printf "doors.bind is %s, which no other pod, no probe and no service reaches: set it to 0.0.0.0 or ::." $values.doors.bind) -}}
{{- end -}}
{{- if $values.networkPolicy.enabled -}}{{- include "halfhitch.checkNetworkPolicy" $values -}}{{- end -}}
{{- if and $values.topics.init $values.serviceAccount.create ($values.settings.kafka | default dict).msk_iam_region (not $values.topics.serviceAccountName) -}}
{{- fail "settings.kafka.msk_iam_region signs in with the rights of an account, and the Job of topics.init runs before the account of the release is there: set topics.serviceAccountName to one that is there, or serviceAccount.create to false and serviceAccount.name to it, or topics.init to false." -}}
{{- end -}}
{{- include "halfhitch.checkSecrets" . -}}
{{- end -}}
{{- $drain := ($values.settings.drain | default dict).s_max | default 10 -}}
{{- $least := add (int (ceil $drain)) (int $values.preStopSeconds) 15 -}}
{{- if lt (int $values.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, and a stop may take %d (settings.drain.s_max, preStopSeconds, and 15 to hand over): set it to %d or more." (int $values.terminationGracePeriodSeconds) (int $least) (int $least)) -}}
{{- end -}}
{{- if and (not $values.serviceAccount.create) $values.serviceAccount.annotations -}}
{{- fail "serviceAccount.annotations is set, but serviceAccount.create is false: annotate the one that is there, or set serviceAccount.create to true." -}}
{{- end -}}
{{- end }}

{{/* Labels that the chart gives itself, selects pods by, or would give twice. Context: the values. */}}
{{- define "halfhitch.checkLabels" -}}
{{- $own := list "helm.sh/chart" -}}
{{- range list "name" "instance" "version" "managed-by" "component" -}}
{{- $own = append $own (printf "app.kubernetes.io/%s" .) -}}
{{- end -}}
{{- $common := .commonLabels | default dict -}}
{{- range $place, $labels := dict "commonLabels" .commonLabels "podLabels" .podLabels "topics.podLabels" .topics.podLabels "metrics.labels" .metrics.labels "dashboards.labels" .dashboards.labels -}}
{{- range $name, $_ := $labels -}}
{{- if has $name $own -}}
{{- fail (printf "%s has %s, which the chart gives itself and finds its pods by: choose another name." $place $name) -}}
{{- end -}}
{{- if and (ne $place "commonLabels") (hasKey $common $name) -}}
{{- fail (printf "%s has %s, and commonLabels has it too: keep one." $place $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A NetworkPolicy that would refuse what the values ask for, or allow what they do not. Context: the values. */}}
{{- define "halfhitch.checkNetworkPolicy" -}}
{{- $policy := .networkPolicy -}}
{{- if not $policy.kafkaPorts -}}
{{- fail "networkPolicy.kafkaPorts is empty, which would allow every port: name those of the brokers." -}}
{{- end -}}
{{- range $broker := splitList "," .settings.kafka.bootstrap -}}
{{- $port := regexFind "[0-9]+$" (trim $broker) -}}
{{- $known := false -}}
{{- range $policy.kafkaPorts -}}{{- if eq (toString (int .)) $port -}}{{- $known = true -}}{{- end -}}{{- end -}}
{{- if not $known -}}
{{- fail (printf "settings.kafka.bootstrap has %s, and networkPolicy.kafkaPorts has no port %s: nothing would reach it. Name the ports of all brokers there." (trim $broker) $port) -}}
{{- end -}}
{{- end -}}
{{- if and .secrets.redisUrl.secretName (not $policy.redisPorts) -}}
{{- fail "secrets.redisUrl is set, and networkPolicy.redisPorts is empty: name the port of Redis." -}}
{{- end -}}
{{- if and (or .metrics.serviceMonitor .metrics.podMonitor) (not $policy.monitoring) -}}
{{- fail "Metrics are to be scraped (metrics.serviceMonitor, metrics.podMonitor), and networkPolicy.monitoring is empty, so that Prometheus could not reach the admin door: name its pods there." -}}
{{- end -}}
{{- $kafka := .settings.kafka -}}
{{- $calls := dict
  "settings.checks.url" (.settings.checks | default dict).url
  "settings.tracing.endpoint" (.settings.tracing | default dict).endpoint
  "settings.kafka.msk_iam_region" $kafka.msk_iam_region
  "settings.kafka.options sasl.oauthbearer.token.endpoint.url" (index ($kafka.options | default dict) "sasl.oauthbearer.token.endpoint.url") -}}
{{- range $name, $value := $calls -}}
{{- if and $value (not $policy.extraEgress) -}}
{{- fail (printf "%s is set, and networkPolicy.extraEgress is empty, so that nothing could be sent there: add a rule for it." $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Secrets that the pods mount, as a mapping of names to lists of keys. Context: the values. */}}
{{- define "halfhitch.neededSecrets" -}}
{{- $needed := dict -}}
{{- range $name, $secret := .secrets -}}
{{- if $secret.secretName -}}
{{- $_ := set $needed $secret.secretName (append (index $needed $secret.secretName | default list) $secret.key) -}}
{{- end -}}
{{- end -}}
{{- range $name, $door := omit .doors "bind" -}}
{{- if and $door.tls.secretName (or (ne $name "rocketmq") $door.enabled) -}}
{{- $keys := list "tls.crt" "tls.key" -}}
{{- if ne $door.tls.clients "off" -}}{{- $keys = append $keys "ca.crt" -}}{{- end -}}
{{- $_ := set $needed $door.tls.secretName (concat (index $needed $door.tls.secretName | default list) $keys) -}}
{{- end -}}
{{- end -}}
{{- toYaml $needed -}}
{{- end }}

{{/*
A pod whose secret is not there hangs without a word, and the Job of topics.init with it. Where a cluster is asked, and
its namespace is there, the secrets must be. Context: the root.
*/}}
{{- define "halfhitch.checkSecrets" -}}
{{- $place := .Release.Namespace -}}
{{- if and .Values.checkSecrets .Values.topics.init (lookup "v1" "ServiceAccount" $place "default") -}}
{{- range $name, $keys := fromYaml (include "halfhitch.neededSecrets" .Values) -}}
{{- $found := lookup "v1" "Secret" $place $name -}}
{{- if not $found -}}
{{- fail (printf "There is no secret %s in namespace %s, and pods that mount it would not start: make it first (docs/kubernetes.md), or set checkSecrets to false." $name $place) -}}
{{- end -}}
{{- range $keys -}}
{{- if not (hasKey ($found.data | default dict) .) -}}
{{- fail (printf "The secret %s in namespace %s has no key %s, and pods that mount it would not start: name another key of it, or set checkSecrets to false." $name $place .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "halfhitch.podSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int64 . }}
{{- end }}
{{- with .Values.runAsGroup }}
runAsGroup: {{ int64 . }}
fsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Labels and annotations of such a pod, those of the coordinators' pods among them. Context: the root. */}}
{{- define "halfhitch.toolLabels" -}}
{{- with merge (deepCopy (.Values.topics.podLabels | default dict)) (.Values.podLabels | default dict) -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{- define "halfhitch.toolAnnotations" -}}
{{- with merge (deepCopy (.Values.topics.podAnnotations | default dict)) (.Values.podAnnotations | default dict) -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}

{{/* A pod that runs one command and ends. Context: a list of [root, arguments, the account, if any]. */}}
{{- define "halfhitch.toolPod" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- with index . 2 }}
serviceAccountName: {{ . }}
{{- end }}
securityContext:
  {{- include "halfhitch.podSecurityContext" $root | nindent 2 }}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: halfhitch
    image: {{ include "halfhitch.image" $values | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{ toJson (index . 1) }}
    env:
      {{- include "halfhitch.env" $values | nindent 6 }}
      {{- with $values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    resources:
      {{- toYaml $values.resources | nindent 6 }}
    securityContext:
      {{- include "halfhitch.securityContext" $values | nindent 6 }}
    volumeMounts:
      - name: halfhitch-secrets
        mountPath: /etc/halfhitch/secrets
        readOnly: true
volumes:
  {{- include "halfhitch.secretVolume" $values | nindent 2 }}
{{- end }}

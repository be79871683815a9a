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
{{- if and (or $values.metrics.serviceMonitor $values.metrics.podMonitor) (not $values.doors.admin.exposed) -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor need doors.admin.exposed: Prometheus cannot reach a door on the pod's loopback." -}}
{{- end -}}
{{- if and $values.metrics.serviceMonitor $values.metrics.podMonitor -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor are both true: every sample would be there twice. Keep one." -}}
{{- end -}}
{{- with $values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas (%d) is larger than autoscaling.maxReplicas (%d)." (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
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

{{/* A pod that runs one command and ends. Context: a list of [root, arguments]. */}}
{{- define "halfhitch.toolPod" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- /* Hooks run before the account of the release is there. */}}
{{- if not $values.serviceAccount.create }}
serviceAccountName: {{ include "halfhitch.serviceAccountName" $root }}
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

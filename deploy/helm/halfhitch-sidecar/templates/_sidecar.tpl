{{/*
For charts that depend on this one. In a pod template:

    spec:
      securityContext: {fsGroup: 65532}
      initContainers:
        {{- include "halfhitch.sidecar" . | nindent 8 }}
      containers:
        - name: app
          env:
            {{- include "halfhitch.sidecar.appEnv" . | nindent 12 }}
          volumeMounts:
            {{- include "halfhitch.sidecar.appVolumeMounts" . | nindent 12 }}
      volumes:
        {{- include "halfhitch.sidecar.volumes" . | nindent 8 }}

With `mode: container` the first include belongs below `containers` instead.
*/}}

{{/* The values, below the dependency's name or its alias `halfhitch`. */}}
{{- define "halfhitch.sidecar.values" -}}
{{- if not (and (kindIs "map" .) (hasKey . "Values")) -}}
{{- fail "A template of halfhitch-sidecar was included with something else than the root: write include \"halfhitch.sidecar\" $, with a dollar sign inside of range and with." -}}
{{- end -}}
{{- $own := index .Values "halfhitch-sidecar" -}}
{{- $values := $own | default .Values.halfhitch -}}
{{- if and $own (hasKey (.Subcharts | default dict) "halfhitch") (not (hasKey .Subcharts "halfhitch-sidecar")) -}}
{{- fail "The dependency has alias: halfhitch, and there are values below halfhitch-sidecar, which nobody reads: move them below halfhitch." -}}
{{- end -}}
{{- if not $values -}}
{{- fail "There are no values of halfhitch-sidecar: name the chart in your Chart.yaml's dependencies, by this name or with alias: halfhitch, and run helm dependency update." -}}
{{- end -}}
{{- if $values.enabled -}}
{{- include "halfhitch.checkNeeded" (list $values (fromYaml (include "halfhitch.sidecar.needed" .))) -}}
{{- end -}}
{{- toYaml $values -}}
{{- end }}

{{- define "halfhitch.sidecar.check" -}}
{{- $values := .values -}}
{{- include "halfhitch.check" $values -}}
{{- include "halfhitch.checkKafka" (list (dict "place" "settings" "values" $values)) -}}
{{- include "halfhitch.checkSettings" (dict "values" $values) -}}
{{- if and (eq $values.mode "native") (not (semverCompare ">=1.29-0" .version)) -}}
{{- fail (printf "halfhitch-sidecar.mode is native, which needs Kubernetes 1.29, and this cluster is %s: set halfhitch-sidecar.mode to container, and include halfhitch.sidecar below containers." .version) -}}
{{- end -}}
{{- $drain := ($values.settings.drain | default dict).s_max | default 10 -}}
{{- $grace := int $values.terminationGracePeriodSeconds -}}
{{- $least := add (int $values.stopAfterSeconds) (int (ceil $drain)) 5 -}}
{{- if and (eq $values.mode "container") (lt $grace (int $least)) -}}
{{- fail (printf "halfhitch-sidecar.terminationGracePeriodSeconds is %d, and with mode: container a stop may take %d (stopAfterSeconds, settings.drain.s_max, and 5 to hand over): give the pod %d or more, and say so here." $grace (int $least) (int $least)) -}}
{{- end -}}
{{- /* As `halfhitch inject` has it: two until it sees that nobody is connected, and five to hand over. */ -}}
{{- if and (eq $values.mode "native") (lt $grace 7) -}}
{{- fail (printf "halfhitch-sidecar.terminationGracePeriodSeconds is %d, and the sidecar, which stops behind the application, may take 7 of them: give the pod 7 and what the application takes, and say so here." $grace) -}}
{{- end -}}
{{- if $values.doors.admin.exposed -}}
{{- include "halfhitch.checkDoors" (list $values (list "admin")) -}}
{{- if not (has $values.doors.bind (list "0.0.0.0" "::")) -}}
{{- fail (printf "halfhitch-sidecar.doors.bind is %s and doors.admin.exposed is true, and no probe reaches that: set it to 0.0.0.0 or ::." $values.doors.bind) -}}
{{- end -}}
{{- end -}}
{{- if and $values.doors.rocketmq.enabled (or $values.secrets.authTokens.secretName $values.secrets.identities.secretName) (not $values.secrets.rocketmqAccessKeys.secretName) -}}
{{- fail "secrets.authTokens or secrets.identities locks the HTTP doors, and the RocketMQ door would stay open: set secrets.rocketmqAccessKeys.secretName too." -}}
{{- end -}}
{{- end }}

{{/* The container, as an item of initContainers (mode native) or containers. */}}
{{- define "halfhitch.sidecar" -}}
{{- $values := fromYaml (include "halfhitch.sidecar.values" .) -}}
{{- if $values.enabled -}}
{{- include "halfhitch.sidecar.check" (dict "values" $values "version" ($values.kubeVersion | default .Capabilities.KubeVersion.Version)) -}}
{{- $exposed := $values.doors.admin.exposed -}}
- name: halfhitch
  image: {{ include "halfhitch.image" $values | quote }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  args: [serve]
  {{- if eq $values.mode "native" }}
  restartPolicy: Always
  {{- end }}
  env:
    {{- include "halfhitch.env" $values | nindent 4 }}
    {{- include "halfhitch.doorEnv" (list $values "http" "127.0.0.1") | nindent 4 }}
    {{- if eq $values.transport "socket" }}
    - name: HALFHITCH_HTTP_SOCKET
      value: /run/halfhitch/data.sock
    {{- end }}
    {{- include "halfhitch.doorEnv" (list $values "admin" (ternary $values.doors.bind "127.0.0.1" $exposed)) | nindent 4 }}
    {{- if $values.doors.rocketmq.enabled }}
    - name: HALFHITCH_ROCKETMQ_ENABLED
      value: "true"
    {{- include "halfhitch.doorEnv" (list $values "rocketmq" "127.0.0.1") | nindent 4 }}
    {{- end }}
    {{- with $values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if $exposed }}
  ports:
    - name: admin
      containerPort: {{ $values.doors.admin.port }}
  {{- end }}
  {{- include "halfhitch.probes" (list $values $exposed) | nindent 2 }}
  {{- if eq $values.mode "container" }}
  lifecycle:
    preStop:
      exec:
        command: [python, -c, "import time; time.sleep({{ int64 $values.stopAfterSeconds }})"]
  {{- end }}
  resources:
    {{- toYaml $values.resources | nindent 4 }}
  securityContext:
    {{- include "halfhitch.securityContext" $values | nindent 4 }}
  volumeMounts:
    {{- if eq $values.transport "socket" }}
    - name: halfhitch-socket
      mountPath: /run/halfhitch
    {{- end }}
    {{- include "halfhitch.volumeMounts" $values | nindent 4 }}
    {{- include "halfhitch.noTokenMount" . | nindent 4 }}
{{- end -}}
{{- end }}

{{/* Volumes of the pod. */}}
{{- define "halfhitch.sidecar.volumes" -}}
{{- $values := fromYaml (include "halfhitch.sidecar.values" .) -}}
{{- if $values.enabled -}}
{{- if eq $values.transport "socket" -}}
- name: halfhitch-socket
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{ end -}}
{{- include "halfhitch.volumes" $values }}
{{ include "halfhitch.noTokenVolume" . -}}
{{- end -}}
{{- end }}

{{/* For the application's container: where the sidecar is. The clients of Half Hitch read it. */}}
{{- define "halfhitch.sidecar.appEnv" -}}
{{- $values := fromYaml (include "halfhitch.sidecar.values" .) -}}
{{- if $values.enabled -}}
- name: HALFHITCH_ADDRESS
  value: {{ ternary "unix:/run/halfhitch/data.sock" (printf "%s://127.0.0.1:%v" (ternary "http" "https" (empty $values.doors.http.tls.secretName)) $values.doors.http.port) (eq $values.transport "socket") | quote }}
{{- end -}}
{{- end }}

{{- define "halfhitch.sidecar.appVolumeMounts" -}}
{{- $values := fromYaml (include "halfhitch.sidecar.values" .) -}}
{{- if and $values.enabled (eq $values.transport "socket") -}}
- name: halfhitch-socket
  mountPath: /run/halfhitch
{{- end -}}
{{- end }}

{{/* Metrics of the sidecars. Context: a dict of root, name and selector (labels of the pods). */}}
{{- define "halfhitch.sidecar.podMonitor" -}}
{{- range list "root" "name" "selector" -}}
{{- if not (index $ .) -}}
{{- fail (printf "halfhitch.sidecar.podMonitor was included without %s: give it (dict \"root\" $ \"name\" \"my-app\" \"selector\" (dict \"app\" \"my-app\"))." .) -}}
{{- end -}}
{{- end -}}
{{- $values := fromYaml (include "halfhitch.sidecar.values" .root) -}}
{{- if $values.enabled -}}
{{- if not $values.doors.admin.exposed -}}
{{- fail "halfhitch.sidecar.podMonitor needs halfhitch-sidecar.doors.admin.exposed: Prometheus cannot reach a door on the pod's loopback." -}}
{{- end -}}
{{- include "halfhitch.checkScrape" $values -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  {{- with $values.metrics.labels }}
  labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  selector:
    matchLabels:
      {{- toYaml .selector | nindent 6 }}
  podMetricsEndpoints:
    - port: admin
      path: /metrics
      interval: {{ $values.metrics.interval }}
      {{- include "halfhitch.scrape" $values | nindent 6 }}
{{- end -}}
{{- end }}

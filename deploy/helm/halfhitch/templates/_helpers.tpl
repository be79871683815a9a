{{- define "halfhitch.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 50 | trimAll "-" }}
{{- end }}

{{- define "halfhitch.fullname" -}}
{{- $name := include "halfhitch.name" . -}}
{{- /* A release may have dots in its name, a Service may not. */ -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- $both := ternary $release (printf "%s-%s" $release $name) (contains $name $release) -}}
{{ .Values.fullnameOverride | default $both | trunc 50 | trimAll "-" }}
{{- end }}

{{- define "halfhitch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "halfhitch.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: coordinator
{{- end }}

{{- define "halfhitch.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "halfhitch.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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
{{- include "halfhitch.checkNeeded" (list $values (fromYaml (include "halfhitch.needed" .))) -}}
{{- include "halfhitch.check" $values -}}
{{- $sidecars := list -}}
{{- if or $values.coordinators.enabled (not $values.injection.policy.enabled) -}}
{{- $sidecars = append $sidecars (dict "place" "settings" "values" $values) -}}
{{- end -}}
{{- if $values.injection.policy.enabled -}}
{{- $place := ternary "injection.settings" "settings" (not (empty ($values.injection.settings.kafka | default dict).bootstrap)) -}}
{{- $injected := fromYaml (include "halfhitch.injection.values" .) -}}
{{- $sidecars = append $sidecars (dict "place" $place "over" $values.injection.settings
  "values" (dict "settings" $injected.settings "doors" $injected.doors "secrets" (set (deepCopy $values.secrets) "identities" (dict "secretName" "")))) -}}
{{- include "halfhitch.checkInjected" $injected.settings -}}
{{- include "halfhitch.checkAmounts" (list "injection.resources" $injected.resources) -}}
{{- end -}}
{{- include "halfhitch.checkKafka" $sidecars -}}
{{- range $sidecars -}}{{- include "halfhitch.checkSettings" . -}}{{- end -}}
{{- include "halfhitch.checkMonitors" $values -}}
{{- include "halfhitch.checkLabels" $values -}}
{{- if $values.coordinators.enabled -}}{{- include "halfhitch.checkCoordinators" . -}}{{- end -}}
{{- if and (not $values.serviceAccount.create) $values.serviceAccount.annotations -}}
{{- fail "serviceAccount.annotations is set, but serviceAccount.create is false: annotate the one that is there, or set serviceAccount.create to true." -}}
{{- end -}}
{{- end }}

{{/* What a pod can be told alone, by annotations beside that of its certificate. Context: the settings of such sidecars. */}}
{{- define "halfhitch.checkInjected" -}}
{{- range $door := list "http" "admin" "rocketmq" -}}
{{- $group := index $ $door | default dict -}}
{{- range $name, $off := dict "tls_clients" "off" "tls_required" "false" -}}
{{- $value := toString (index $group $name) -}}
{{- if not (has $value (list $off "<nil>" "")) -}}
{{- fail (printf "injection.settings.%s.%s is %s, and sidecars have no certificate by settings: leave it out, and give the pods that bring one the annotation halfhitch/%s.%s beside halfhitch/%s.tls_cert." $door $name $value $door $name $door) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "halfhitch.checkMonitors" -}}
{{- if or .metrics.serviceMonitor .metrics.podMonitor -}}
{{- if not .coordinators.enabled -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor are for coordinators, and coordinators.enabled is false: set them to false." -}}
{{- end -}}
{{- if not .doors.admin.exposed -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor need doors.admin.exposed: Prometheus cannot reach a door on the pod's loopback." -}}
{{- end -}}
{{- include "halfhitch.checkScrape" . -}}
{{- end -}}
{{- if and .metrics.serviceMonitor .metrics.podMonitor -}}
{{- fail "metrics.serviceMonitor and metrics.podMonitor are both true: every sample would be there twice. Keep one." -}}
{{- end -}}
{{- end }}

{{/* What can be wrong with coordinators alone. */}}
{{- define "halfhitch.checkCoordinators" -}}
{{- $values := .Values -}}
{{- $name := include "halfhitch.fullname" . -}}
{{- if regexMatch "^[0-9]" $name -}}
{{- fail (printf "The coordinators would be called %s, and a Service's name begins with a letter: set fullnameOverride, for example to halfhitch-%s." $name (trunc 40 $name | trimSuffix "-")) -}}
{{- end -}}
{{- $doors := list "http" -}}
{{- if $values.doors.admin.exposed -}}{{- $doors = append $doors "admin" -}}{{- end -}}
{{- if $values.doors.rocketmq.enabled -}}{{- $doors = append $doors "rocketmq" -}}{{- end -}}
{{- include "halfhitch.checkDoors" (list $values $doors) -}}
{{- with $values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas (%d) is larger than autoscaling.maxReplicas (%d)." (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- $resources := $values.resources | default dict -}}
{{- $cpu := dig "requests" "cpu" "" $resources | default (dig "limits" "cpu" "" $resources) | default "0" -}}
{{- if and .enabled (eq (float64 (include "halfhitch.amount" $cpu)) 0.0) -}}
{{- fail "autoscaling.enabled is true, and resources.requests.cpu is not set: its target is a share of that." -}}
{{- end -}}
{{- end -}}
{{- with $values.podDisruptionBudget -}}
{{- if and .enabled (has (toString .maxUnavailable) (list "0" "0%")) -}}
{{- fail "podDisruptionBudget.maxUnavailable is 0, so that no node could be drained: set it to 1 or more." -}}
{{- end -}}
{{- $all := int (ternary $values.autoscaling.minReplicas $values.coordinators.replicas $values.autoscaling.enabled) -}}
{{- $away := float64 (trimSuffix "%" (toString .maxUnavailable)) -}}
{{- if hasSuffix "%" (toString .maxUnavailable) -}}{{- $away = ceil (divf (mulf $away $all) 100.0) -}}{{- end -}}
{{- if and .enabled (gt $all 1) (ge (int $away) $all) -}}
{{- fail (printf "podDisruptionBudget.maxUnavailable is %v, so that all %d instances could be away at once: set it to less, or podDisruptionBudget.enabled to false." .maxUnavailable $all) -}}
{{- end -}}
{{- end -}}
{{- if not (has $values.doors.bind (list "0.0.0.0" "::")) -}}
{{- fail (printf "doors.bind is %s, which no pod has, or no other pod, no probe and no service reaches: set it to 0.0.0.0 or ::." $values.doors.bind) -}}
{{- end -}}
{{- if $values.networkPolicy.enabled -}}{{- include "halfhitch.checkNetworkPolicy" $values -}}{{- end -}}
{{- if and $values.topics.init $values.serviceAccount.create ($values.settings.kafka | default dict).msk_iam_region (not $values.topics.serviceAccountName) -}}
{{- fail "settings.kafka.msk_iam_region signs in with the rights of an account, and the Job of topics.init runs before the account of the release is there: set topics.serviceAccountName to one that is there, or serviceAccount.create to false and serviceAccount.name to it, or topics.init to false." -}}
{{- end -}}
{{- $drain := ($values.settings.drain | default dict).s_max | default 10 -}}
{{- $least := add (int (ceil $drain)) (int $values.preStopSeconds) 15 -}}
{{- if lt (int $values.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, and a stop may take %d (settings.drain.s_max, preStopSeconds, and 15 to hand over): set it to %d or more." (int $values.terminationGracePeriodSeconds) (int $least) (int $least)) -}}
{{- end -}}
{{- include "halfhitch.checkSecrets" . -}}
{{- end }}

{{/* Lets the pod's user bind ports below 1024, which not each container runtime does by itself. Context: the values. */}}
{{- define "halfhitch.lowPorts" -}}
{{- $ports := list .doors.http.port -}}
{{- if .doors.admin.exposed -}}{{- $ports = append $ports .doors.admin.port -}}{{- end -}}
{{- if .doors.rocketmq.enabled -}}{{- $ports = append $ports .doors.rocketmq.port -}}{{- end -}}
{{- $least := 1024 -}}
{{- range $ports -}}{{- $least = min $least (int .) -}}{{- end -}}
{{- if lt (int $least) 1024 -}}
sysctls:
  - name: net.ipv4.ip_unprivileged_port_start
    value: {{ $least | quote }}
{{- end -}}
{{- end }}

{{/*
How many instances the StatefulSet is told to have; nothing where the autoscaler alone says so. An upgrade that leaves out the
number of the release before makes it 1, and the others would stop until the autoscaler has looked. So where a cluster is
asked, it is the number that there is.
*/}}
{{- define "halfhitch.replicas" -}}
{{- if not .Values.autoscaling.enabled -}}
{{ int64 .Values.coordinators.replicas }}
{{- else -}}
{{- $there := lookup "apps/v1" "StatefulSet" .Release.Namespace (include "halfhitch.fullname" .) -}}
{{- if $there -}}
{{ min (max (int $there.spec.replicas) (int .Values.autoscaling.minReplicas)) (int .Values.autoscaling.maxReplicas) }}
{{- else if lookup "v1" "ServiceAccount" .Release.Namespace "default" -}}
{{ int64 .Values.autoscaling.minReplicas }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Labels that the chart gives itself, selects pods by, or would give twice, or that a policy hears. Context: the values. */}}
{{- define "halfhitch.checkLabels" -}}
{{- $own := list "helm.sh/chart" -}}
{{- range list "name" "instance" "version" "managed-by" "component" -}}
{{- $own = append $own (printf "app.kubernetes.io/%s" .) -}}
{{- end -}}
{{- $common := .commonLabels | default dict -}}
{{- range $place, $labels := dict "commonLabels" .commonLabels "podLabels" .podLabels "topics.podLabels" .topics.podLabels "metrics.labels" .metrics.labels "dashboards.labels" .dashboards.labels -}}
{{- range $name, $label := $labels -}}
{{- if has $name $own -}}
{{- fail (printf "%s has %s, which the chart gives itself and finds its pods by: choose another name." $place $name) -}}
{{- end -}}
{{- if and (eq $name "halfhitch/inject") (eq $label "true") (has $place (list "commonLabels" "podLabels" "topics.podLabels")) -}}
{{- fail (printf "%s has halfhitch/inject, and the chart's pods would ask for a sidecar, which a coordinator cannot have: remove it." $place) -}}
{{- end -}}
{{- if and (ne $place "commonLabels") (hasKey $common $name) -}}
{{- fail (printf "%s has %s, and commonLabels has it too: keep one." $place $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A rule of a NetworkPolicy for what goes out, or nothing. Context: a list of [ports, peers]; empty: every one. */}}
{{- define "halfhitch.egress" -}}
{{- $rule := dict -}}
{{- $ports := list -}}
{{- range index . 0 -}}{{- $ports = append $ports (dict "port" (int .)) -}}{{- end -}}
{{- with $ports -}}{{- $_ := set $rule "ports" . -}}{{- end -}}
{{- with index . 1 -}}{{- $_ := set $rule "to" . -}}{{- end -}}
{{- with $rule -}}{{- toYaml (list .) -}}{{- end -}}
{{- end }}

{{/* Ports that the policy lets out to anywhere, but for extraEgress. Context: the values. */}}
{{- define "halfhitch.openPorts" -}}
{{- $open := list -}}
{{- with .networkPolicy -}}
{{- if not .kafkaPeers -}}{{- $open = concat $open (.kafkaPorts | default list) -}}{{- end -}}
{{- if and $.secrets.redisUrl.secretName (not .redisPeers) -}}{{- $open = concat $open (.redisPorts | default list) -}}{{- end -}}
{{- end -}}
{{- range $open }} {{ int . }}{{ end }} {{/* each between two blanks */}}
{{- end }}

{{/* Whether extraEgress may let something out to a port: no rule of it is about other ports alone. Context: a list of [rules, port]. */}}
{{- define "halfhitch.extraPort" -}}
{{- $port := index . 1 -}}
{{- range index . 0 -}}
{{- if not .ports -}}yes{{- end -}}
{{- range .ports -}}
{{- $first := .port | default 0 -}}
{{- if or (kindIs "string" $first) (eq (int $first) 0) (and (le (int $first) $port) (le $port (int (.endPort | default $first)))) -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Where a URL leads out of the pod to, as its port; nothing for one on the pod's own loopback. */}}
{{- define "halfhitch.urlPort" -}}
{{- $url := urlParse (toString .) -}}
{{- if not (regexMatch "^(localhost|(::ffff:)?127[.][0-9.]+|::1)$" (lower $url.hostname)) -}}
{{ regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "80" "443" (eq $url.scheme "http")) }}
{{- end -}}
{{- end }}

{{/* A NetworkPolicy that would refuse what the values ask for, or allow what they do not. Context: the values. */}}
{{- define "halfhitch.checkNetworkPolicy" -}}
{{- $policy := .networkPolicy -}}
{{- if not (or $policy.kafkaPorts $policy.kafkaPeers $policy.extraEgress) -}}
{{- fail "networkPolicy.kafkaPorts is empty, and so is networkPolicy.kafkaPeers, which would allow every port: name the brokers' ports, or their places." -}}
{{- end -}}
{{- range $broker := splitList "," .settings.kafka.bootstrap -}}
{{- $port := regexFind "[0-9]+$" (trim $broker) -}}
{{- $isHere := regexMatch "^(localhost|127[.][0-9.]+|[[]::1[]]):" (trim $broker) -}}
{{- $isKnown := or $isHere (not $policy.kafkaPorts) (include "halfhitch.extraPort" (list $policy.extraEgress (atoi $port))) -}}
{{- range $policy.kafkaPorts -}}{{- if eq (toString (int .)) $port -}}{{- $isKnown = true -}}{{- end -}}{{- end -}}
{{- if not $isKnown -}}
{{- fail (printf "settings.kafka.bootstrap has %s, and networkPolicy.kafkaPorts has no port %s: nothing would reach it. Name the ports of all brokers there." (trim $broker) $port) -}}
{{- end -}}
{{- end -}}
{{- if and .secrets.redisUrl.secretName (not (or $policy.redisPorts $policy.redisPeers $policy.extraEgress)) -}}
{{- fail "secrets.redisUrl is set, and networkPolicy.redisPorts is empty: name the port of Redis." -}}
{{- end -}}
{{- if and (eq .service.type "LoadBalancer") (not $policy.clients) -}}
{{- fail "service.type is LoadBalancer, and networkPolicy.clients is empty, so that only pods of this namespace get in: name there who may, such as an ipBlock of callers from outside." -}}
{{- end -}}
{{- if and (or .metrics.serviceMonitor .metrics.podMonitor) (not $policy.monitoring) -}}
{{- fail "Metrics are to be scraped (metrics.serviceMonitor, metrics.podMonitor), and networkPolicy.monitoring is empty, so that Prometheus could not reach the admin door: name its pods there." -}}
{{- end -}}
{{- $kafka := .settings.kafka -}}
{{- $calls := dict
  "settings.checks.url" (.settings.checks | default dict).url
  "settings.tracing.endpoint" (.settings.tracing | default dict).endpoint
  "settings.kafka.msk_iam_region" (ternary "" "https://sts" (empty $kafka.msk_iam_region))
  "settings.kafka.options sasl.oauthbearer.token.endpoint.url" (index ($kafka.options | default dict) "sasl.oauthbearer.token.endpoint.url") -}}
{{- $open := include "halfhitch.openPorts" . -}}
{{- range $name, $url := $calls -}}
{{- $port := ternary "" (include "halfhitch.urlPort" $url) (empty $url) -}}
{{- if and $port (not $policy.extraEgress) (not (contains (printf " %s " $port) $open)) -}}
{{- fail (printf "%s is set, and networkPolicy.extraEgress is empty, so that nothing could be sent there: add a rule for it (port %s)." $name $port) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Secrets that the pods mount, as a mapping of names to lists of keys. Context: the values. */}}
{{- define "halfhitch.neededSecrets" -}}
{{- $needed := dict -}}
{{- range fromYaml (include "halfhitch.heeded" .) -}}
{{- $_ := set $needed .secretName (append (index $needed .secretName | default list) .key) -}}
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
serviceAccountName: {{ . | quote }}
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

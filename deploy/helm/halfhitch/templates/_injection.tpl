{{/*
The sidecar that the API server puts into pods: the same as `halfhitch inject` makes of the same settings. A test
compares them.
*/}}

{{/* Policies belong to the whole cluster, so their name has the namespace in it. No namespace has a dot. */}}
{{- define "halfhitch.injection.name" -}}
{{ printf "%s.%s" (include "halfhitch.fullname" .) .Release.Namespace }}
{{- end }}

{{/*
Of two releases whose policies look at the same namespaces, one puts its sidecar in, and nobody knows which. Where a
cluster is asked, the others' selectors are known. Two that differ are believed to be of different namespaces.
*/}}
{{- define "halfhitch.injection.checkAlone" -}}
{{- $own := .Values.injection.policy.namespaceSelector -}}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- range (lookup "admissionregistration.k8s.io/v1" "MutatingAdmissionPolicy" "" "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $release := index $annotations "meta.helm.sh/release-name" | default "" -}}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" | default "" -}}
{{- $isOurs := and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace) -}}
{{- $isOurs = or $isOurs (eq .metadata.name (include "halfhitch.injection.name" $)) -}}
{{- $isHalfHitchs := hasPrefix "halfhitch-" (index $labels "helm.sh/chart" | default "") -}}
{{- $theirs := .spec.matchConstraints.namespaceSelector -}}
{{- if and $isHalfHitchs (not $isOurs) (or (empty $own) (empty $theirs) (eq (toJson $own) (toJson $theirs))) -}}
{{- fail (printf "The policy %s (release %s in namespace %s) looks at pods of the same namespaces, and nobody would know whose sidecar they get: give both releases an injection.policy.namespaceSelector, each its own." .metadata.name $release $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Settings that these sidecars cannot have, and what to use instead. */}}
{{- define "halfhitch.injection.elsewhere" -}}
{{- $elsewhere := fromYaml (include "halfhitch.elsewhere" .) -}}
{{- range $door := list "http" "admin" "rocketmq" -}}
{{- range $name := list "port" "encrypted_in_front" "tls_clients" "tls_required" "enabled" -}}
{{- $_ := unset $elsewhere (printf "%s.%s" $door $name) -}}
{{- end -}}
{{- range $name := list "tls_cert" "tls_key" "tls_client_ca" -}}
{{- $key := printf "%s.%s" $door $name -}}
{{- $_ := set $elsewhere $key (printf "the annotation halfhitch/%s of a pod, with secret:NAME/KEY" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $why := (fromYaml (include "halfhitch.annotations" .)).refused -}}
{{- $_ := set $elsewhere $key (printf "nothing; %s" (replace "use halfhitch/transport: socket" "injection.transport is the value for it" $why)) -}}
{{- end -}}
{{- toYaml $elsewhere -}}
{{- end }}

{{- define "halfhitch.injection.check" -}}
{{- $settings := (fromYaml (include "halfhitch.injection.values" .)).settings -}}
{{- $doors := (fromYaml (include "halfhitch.injection.values" .)).doors -}}
{{- $rocketmq := $settings.rocketmq | default dict -}}
{{- range $door := list "http" "admin" "rocketmq" -}}
{{- $group := index $.Values.injection.settings $door | default dict -}}
{{- if and (hasKey $group "port") (not (kindIs "invalid" $group.port)) (eq (int $group.port) 0) -}}
{{- fail (printf "injection.settings.%s.port is 0, a port that no application could know: leave it out, or give one from 1 to 65535." $door) -}}
{{- end -}}
{{- end -}}
{{- $ports := list (int $doors.http.port) (int $doors.admin.port) -}}
{{- if $rocketmq.enabled -}}{{- $ports = append $ports (int ($rocketmq.port | default 9876)) -}}{{- end -}}
{{- if ne (len $ports) (len (uniq $ports)) -}}
{{- fail (printf "injection.settings gives two doors one port (http.port %d, admin.port %d, rocketmq.port where it is enabled): each needs one of its own." (index $ports 0) (index $ports 1)) -}}
{{- end -}}
{{- $version := .Values.kubeVersion | default .Capabilities.KubeVersion.Version -}}
{{- if not (semverCompare ">=1.36-0" $version) -}}
{{- fail (printf "injection.policy.enabled is true, which needs Kubernetes 1.36 (MutatingAdmissionPolicy), and this cluster is %s: set it to false, and put the sidecar in with `halfhitch inject` or the chart halfhitch-sidecar. Where no cluster is asked (helm template, GitOps), set kubeVersion." $version) -}}
{{- end -}}
{{- $elsewhere := fromYaml (include "halfhitch.injection.elsewhere" .) -}}
{{- range $group, $settings := .Values.injection.settings -}}
{{- range $name, $value := $settings -}}
{{- with index $elsewhere (printf "%s.%s" $group $name) -}}
{{- fail (printf "injection.settings.%s.%s cannot be given here: use %s." $group $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $kafka := .Values.injection.settings.kafka | default dict -}}
{{- range $name, $place := fromYaml (include "halfhitch.secretOptions" .) -}}
{{- if hasKey ($kafka.options | default dict) $name -}}
{{- fail (printf "injection.settings.kafka.options has %s, which is a secret or a file: use %s." $name $place) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* As the values of the chart halfhitch-sidecar, for the templates that both have. */}}
{{- define "halfhitch.injection.values" -}}
{{- $values := .Values -}}
{{- $settings := mergeOverwrite (omit (deepCopy $values.settings) "auth") (deepCopy $values.injection.settings) -}}
{{- $doors := dict -}}
{{- range $name, $port := dict "http" 8340 "admin" 8341 -}}
{{- $group := index $settings $name | default dict -}}
{{- $_ := set $doors $name (dict "port" ($group.port | default $port) "tls" (dict "secretName" "") "encryptedInFront" false) -}}
{{- $_ := set $settings $name (omit $group "port") -}}
{{- end -}}
{{- $secrets := deepCopy $values.secrets -}}
{{- range $name := list "authTokens" "identities" "rocketmqAccessKeys" -}}
{{- $_ := set $secrets $name (dict "secretName" "") -}}
{{- end -}}
{{- $probes := dict
  "startup" (dict "path" "livez" "periodSeconds" 1 "timeoutSeconds" 5 "failureThreshold" 60)
  "liveness" (dict "periodSeconds" 30 "timeoutSeconds" 10 "failureThreshold" 3)
  "readiness" (dict "enabled" true "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3) -}}
{{- dict "image" $values.image "settings" $settings "secrets" $secrets "doors" $doors "probes" $probes
  "runAsUser" $values.runAsUser "runAsGroup" $values.runAsGroup "resources" $values.injection.resources | toYaml -}}
{{- end }}

{{/* The container, as an item of initContainers. Context: what the template above gives. */}}
{{- define "halfhitch.injection.container" -}}
- name: halfhitch
  image: {{ include "halfhitch.image" . | quote }}
  imagePullPolicy: {{ .image.pullPolicy }}
  args: [serve]
  restartPolicy: Always
  env:
    {{- include "halfhitch.env" . | nindent 4 }}
    - name: HALFHITCH_HTTP_SOCKET
      value: /run/halfhitch/data.sock
    {{- include "halfhitch.doorEnv" (list . "http" "127.0.0.1") | nindent 4 }}
    {{- include "halfhitch.doorEnv" (list . "admin" "127.0.0.1") | nindent 4 }}
  {{- include "halfhitch.probes" (list . false) | nindent 2 }}
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    {{- include "halfhitch.securityContext" . | nindent 4 }}
  volumeMounts:
    - name: halfhitch-socket
      mountPath: /run/halfhitch
    {{- include "halfhitch.volumeMounts" . | nindent 4 }}
    {{- include "halfhitch.noTokenMount" . | nindent 4 }}
{{- end }}

{{/* The volumes of a pod with the sidecar, without its secrets. */}}
{{- define "halfhitch.injection.otherVolumes" -}}
- name: halfhitch-socket
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{ include "halfhitch.noTokenVolume" . }}
{{- end }}

{{/* Options of Kafka's client, by name. Context: what "halfhitch.injection.values" gives. */}}
{{- define "halfhitch.injection.options" -}}
{{- $options := list -}}
{{- range $name, $value := (.settings.kafka | default dict).options -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $options = append $options (dict "name" $name "value" (include "halfhitch.text" $value)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $options -}}
{{- end }}

{{/*
Any value as CEL has it, a line for each member. CEL wants the members of a list or mapping to be of one type, so those
that are no texts of one mapping are dyn(...).
*/}}
{{- define "halfhitch.injection.literal" -}}
{{- $lines := list -}}
{{- if kindIs "map" . -}}
{{- $isOfTexts := true -}}
{{- range . }}{{ $isOfTexts = and $isOfTexts (kindIs "string" .) }}{{ end -}}
{{- range $name, $value := . -}}
{{- $literal := include "halfhitch.injection.literal" $value -}}
{{- $lines = append $lines (printf "%s: %s" (toRawJson $name) (ternary $literal (printf "dyn(%s)" $literal) $isOfTexts)) -}}
{{- end -}}
{{- if $isOfTexts -}}
{{ printf "{%s}" (join ", " $lines) }}
{{- else -}}
{{ printf "{\n%s\n}" (join ",\n" $lines | indent 2) }}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- $areTexts := true -}}
{{- range . }}{{ $areTexts = and $areTexts (kindIs "string" .) }}{{ end -}}
{{- range . -}}
{{- $literal := include "halfhitch.injection.literal" . -}}
{{- $lines = append $lines (ternary $literal (printf "dyn(%s)" $literal) $areTexts) -}}
{{- end -}}
{{- if $areTexts -}}
{{ printf "[%s]" (join ", " $lines) }}
{{- else -}}
{{ printf "[\n%s\n]" (join ",\n" $lines | indent 2) }}
{{- end -}}
{{- else -}}
{{ toRawJson . }}
{{- end -}}
{{- end }}

{{/* A mapping of texts as CEL has it. */}}
{{- define "halfhitch.cel" -}}
{{- $parts := list -}}
{{- range $name, $value := . -}}
{{- $parts = append $parts (printf "%s: %s" (quote $name) (quote $value)) -}}
{{- end -}}
{{ printf "{%s}" (join ", " $parts) }}
{{- end }}

{{/*
Pods that cannot have the sidecar, as `halfhitch inject` refuses them: an expression that is true of the others, and the
sentence. One policy leaves such a pod alone, the other refuses it. Context: what "halfhitch.annotations" gives.
*/}}
{{- define "halfhitch.injection.refusals" -}}
- expression: >-
    !(has(object.spec.hostNetwork) && object.spec.hostNetwork)
  message: >-
    This pod uses the host's network, where the sidecar's doors would be open to all of the host: remove
    hostNetwork, or the label halfhitch/inject and use a shared coordinator.
- expression: >-
    !(has(object.spec.os) && object.spec.os.name == 'windows') && !(has(object.spec.nodeSelector) &&
    'kubernetes.io/os' in object.spec.nodeSelector && object.spec.nodeSelector['kubernetes.io/os'] == 'windows')
  message: >-
    This pod runs on Windows, and the sidecar's image is for Linux: remove the label halfhitch/inject, and use a shared
    coordinator.
- expression: >-
    !{{ include "halfhitch.injection.isAlien" "object.spec.containers" | nindent 4 | trim }} &&
    !(has(object.spec.initContainers) &&
    {{ include "halfhitch.injection.isAlien" "object.spec.initContainers" | nindent 4 | trim }})
  message: >-
    This pod has a container named 'halfhitch' that was not injected: rename it, or remove the label
    halfhitch/inject.
- expression: >-
    !(has(object.spec.volumes) && object.spec.volumes.exists(v, v.name in {{ toJson .volumes }} &&
    !('halfhitch/sidecar' in object.metadata.labels &&
    (v.name == 'halfhitch-secrets' ? has(v.projected) : has(v.emptyDir)))))
  message: >-
    This pod has a volume named as one of the sidecar's ({{ join ", " .volumes }}) that was not injected, and the sidecar's
    would replace it: rename it.
- expression: >-
    !object.spec.containers.exists(c, c.name != 'halfhitch' && has(c.volumeMounts) &&
    c.volumeMounts.exists(m, m.name == 'halfhitch-secrets')) && !(has(object.spec.initContainers) &&
    object.spec.initContainers.exists(c, c.name != 'halfhitch' && has(c.volumeMounts) &&
    c.volumeMounts.exists(m, m.name == 'halfhitch-secrets')))
  message: >-
    A container of this pod mounts halfhitch-secrets, the secrets of the sidecar: give it a volume of its own.
- expression: >-
    !{{ include "halfhitch.injection.hasAddress" "object.spec.containers" | nindent 4 | trim }} &&
    !(has(object.spec.initContainers) &&
    {{ include "halfhitch.injection.hasAddress" "object.spec.initContainers" | nindent 4 | trim }})
  message: >-
    A container of this pod has a HALFHITCH_ADDRESS of its own, which the sidecar's would replace: remove it, or the
    label halfhitch/inject.
- expression: >-
    !has(object.spec.terminationGracePeriodSeconds) ||
    object.spec.terminationGracePeriodSeconds >= {{ int .graceSeconds }}
  message: >-
    This pod has less than {{ int .graceSeconds }} s to stop, and the sidecar, which stops behind the application, may take
    that: set terminationGracePeriodSeconds to {{ int .graceSeconds }} and what the application takes.
{{- end }}

{{/*
Requests and limits as annotations say them, and where nothing is said as the sidecar has them. Context: a list of [what
"halfhitch.annotations" gives, a list of sidecars in CEL].
*/}}
{{- define "halfhitch.injection.amounts" -}}
{{- $of := index . 0 -}}
{{- $parts := list -}}
{{- range $word, $place := $of.amounts -}}
{{- $parts = append $parts (printf "{\"word\": %q, \"place\": %q, \"name\": %q}" $word (index $place 0) (index $place 1)) -}}
{{- end -}}
- name: amountWords
  expression: |-
    [
      {{- join ",\n" $parts | nindent 6 }}
    ]
- name: amounts
  expression: |-
    variables.amountWords.filter(a, ("halfhitch/" + a.word) in variables.annotations).map(a, {
      "word": a.word, "place": a.place, "name": a.name,
      "text": string(variables.annotations["halfhitch/" + a.word]).trim()
    })
- name: noAmounts
  expression: |-
    variables.amounts.filter(a, a.text != "{{ $of.noAmount }}" && !a.text.matches("{{ $of.amount }}"))
- name: amountsInForce
  expression: |-
    variables.amounts + variables.amountWords.filter(a, !(("halfhitch/" + a.word) in variables.annotations)).map(a, {
      "word": a.word, "place": a.place, "name": a.name,
      "text": ({{ index . 1 }}
        .filter(s, has(s.resources) && a.place in s.resources && a.name in s.resources[a.place])
        .map(s, string(s.resources[a.place][a.name])) + ["{{ $of.noAmount }}"])[0]
    }).filter(a, a.text != "{{ $of.noAmount }}")
- name: tooMuch
  expression: |-
    ["cpu", "memory"].filter(name, variables.amountsInForce.exists(r,
      r.word == name + "-request" && r.text.matches("{{ $of.amount }}") && variables.amountsInForce.exists(l,
      l.word == name + "-limit" && l.text.matches("{{ $of.amount }}") && quantity(r.text).isGreaterThan(quantity(l.text)))))
{{- end }}

{{/* Whether the sidecar is one of these containers. Context: a list in CEL. */}}
{{- define "halfhitch.injection.isIn" -}}
{{ . }}.exists(c, c.name == 'halfhitch' && has(c.args) && c.args == ['serve'])
{{- end }}

{{/* Whether one of these containers has the sidecar's name and was not injected. Context: a list in CEL. */}}
{{- define "halfhitch.injection.isAlien" -}}
{{ . }}.exists(c, c.name == 'halfhitch' &&
!('halfhitch/sidecar' in object.metadata.labels && has(c.args) && c.args == ['serve']))
{{- end }}

{{/* Whether one of these containers is told of another sidecar or coordinator. Context: a list in CEL. */}}
{{- define "halfhitch.injection.hasAddress" -}}
{{ . }}.exists(c, has(c.env) && c.env.exists(e, e.name == 'HALFHITCH_ADDRESS' &&
!(has(e.value) && e.value.matches('^(unix:/run/halfhitch/|https?://(127[.]0[.]0[.]1|localhost):)'))))
{{- end }}

{{/* Whether one of these containers has a port of a door. Context: a list in CEL. */}}
{{- define "halfhitch.injection.hasPort" -}}
{{ . }}.exists(c, c.name != 'halfhitch' && has(c.ports) && c.ports.exists(p,
(!has(p.protocol) || p.protocol == 'TCP') && string(p.containerPort) in variables.doors))
{{- end }}

{{/* Whether one of these containers has something else where the socket is to be. Context: a list in CEL. */}}
{{- define "halfhitch.injection.hidesSocket" -}}
{{ . }}.exists(c, c.name != 'halfhitch' && has(c.env) && c.env.exists(e, e.name == 'HALFHITCH_ADDRESS' &&
has(e.value) && e.value.startsWith('unix:/run/halfhitch/')) && has(c.volumeMounts) &&
c.volumeMounts.exists(m, m.mountPath.matches(variables.socketFolders) && m.name != 'halfhitch-socket'))
{{- end }}

{{/* Variables of a RocketMQ door that is off, by their names. Context: what "halfhitch.annotations" gives. */}}
{{- define "halfhitch.injection.idle" -}}
{{ .idle | replace "[.]" "_" | upper | replace "^(" "^HALFHITCH_(" }}
{{- end }}

{{/* Which pods a policy looks at. Context: a list of [the root, a selector of labels]. */}}
{{- define "halfhitch.injection.match" -}}
matchConstraints:
  {{- with (index . 0).Values.injection.policy.namespaceSelector }}
  namespaceSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  objectSelector:
    {{ index . 1 }}
  resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [pods]
matchConditions:
  - name: not-refused-by-annotation
    expression: >-
      !has(object.metadata.annotations) || !('halfhitch/inject' in object.metadata.annotations) ||
      !object.metadata.annotations['halfhitch/inject'].matches('(?i)^(false|no|off|n)$')
  # The image of a static pod: the kubelet has made the pod already.
  - name: no-mirror-of-a-static-pod
    expression: >-
      !has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)
{{- end }}

{{/* What both policies ask of a pod's annotations. Context: what "halfhitch.annotations" gives. */}}
{{- define "halfhitch.injection.variables" -}}
- name: annotations
  expression: "has(object.metadata.annotations) ? object.metadata.annotations : {}"
# What inject names a file as.
- name: reference
  expression: "'^(secret|configmap):[a-z0-9.-]+/[A-Za-z0-9._-]+$'"
- name: optionReference
  expression: "'^[^=]+=(secret|configmap):[a-z0-9.-]+/[A-Za-z0-9._-]+$'"
- name: files
  expression: |-
    {{- include "halfhitch.cel" .files | nindent 4 }}
- name: optionBegin
  expression: "'^[^!-~]*([a-z][a-z0-9._]*|[A-Za-z][A-Za-z0-9_]*[.][A-Za-z0-9._]*)[^!-~]*='"
# Options of Kafka's client, each as name=value, without blanks around names and references. What has a comma in it
# comes apart here, and together again.
- name: options
  expression: >-
    ('halfhitch/kafka.options' in variables.annotations ?
    variables.annotations['halfhitch/kafka.options'].split(',') : [])
    .map(o, !o.matches(variables.optionBegin) ? o : o.split('=', 2)[0].trim() + '=' +
    (o.split('=', 2)[1].trim().matches(variables.reference) ? o.split('=', 2)[1].trim() : o.split('=', 2)[1]))
- name: optionNames
  expression: "variables.options.filter(o, o.matches(variables.optionBegin)).map(o, o.split('=')[0])"
# Files of Kafka's client that have a name of their own.
- name: optionFiles
  expression: |-
    {{- include "halfhitch.cel" .options | nindent 4 }}
- name: socketFolders
  expression: "'{{ .socketFolders }}'"
- name: initContainers
  expression: "has(object.spec.initContainers) ? object.spec.initContainers : []"
{{- end }}

{{/* How a container of the pod learns where the sidecar is. Context: a list of [its place, its place in CEL]. */}}
{{- define "halfhitch.injection.patches" -}}
{{- $place := index . 0 -}}
{{- $containers := index . 1 -}}
lists.range(size({{ $containers }})).map(i, JSONPatch{
  op: "add", path: "/spec/{{ $place }}/" + string(i) + "/env",
  value: (has({{ $containers }}[i].env) ? {{ $containers }}[i].env : []).map(e,
    e.name == variables.address.name ? dyn(variables.address) : dyn(e)
  ) + (has({{ $containers }}[i].env) && {{ $containers }}[i].env.exists(e, e.name == variables.address.name)
    ? [] : [variables.address])
}) +
lists.range(variables.hasSocket ? size({{ $containers }}) : 0).map(i, JSONPatch{
  op: "add", path: "/spec/{{ $place }}/" + string(i) + "/volumeMounts",
  value: (has({{ $containers }}[i].volumeMounts) ? {{ $containers }}[i].volumeMounts : [])
    + (has({{ $containers }}[i].volumeMounts) &&
      {{ $containers }}[i].volumeMounts.exists(m, m.mountPath.matches(variables.socketFolders)) ? [] : [variables.mount])
})
{{- end }}

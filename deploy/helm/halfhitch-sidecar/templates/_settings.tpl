{{/*
What can be wrong with settings: the rules of the program itself (sidecar/halfhitch/config/rules.py), so that whatever is
rendered starts. A test lets the program judge what was rendered. The file is the same in both charts. Context of most
templates: a sidecar, which is a mapping of `values` and, where sidecars are injected, `over`: injection.settings.
*/}}

{{- define "halfhitch.checkSettings" -}}
{{- include "halfhitch.checkTexts" . -}}
{{- include "halfhitch.checkNumbers" . -}}
{{- include "halfhitch.checkPatterns" . -}}
{{- include "halfhitch.checkAddresses" . -}}
{{- include "halfhitch.checkOptions" . -}}
{{- include "halfhitch.checkSignIn" . -}}
{{- end }}

{{/* How a setting is called where it was given. Context: a list of [sidecar, key]. */}}
{{- define "halfhitch.named" -}}
{{- $parts := splitList "." (index . 1) -}}
{{- $over := index ((index . 0).over | default dict) (first $parts) | default dict -}}
{{ ternary "injection.settings" "settings" (hasKey $over (last $parts)) }}.{{ index . 1 }}
{{- end }}

{{/* What begins or ends with a blank, or has a character that nobody sees. Context: a text. */}}
{{- define "halfhitch.isUnseen" -}}
{{- if regexMatch `^ | $|[\pC\p{Zl}\p{Zp}\x{a0}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}]` . -}}yes{{- end -}}
{{- end }}

{{- define "halfhitch.checkTexts" -}}
{{- $sidecar := . -}}
{{- range $group, $settings := .values.settings -}}
{{- range $name, $value := $settings -}}
{{- $isList := kindIs "slice" $value -}}
{{- if or $isList (kindIs "string" $value) -}}
{{- $named := include "halfhitch.named" (list $sidecar (printf "%s.%s" $group $name)) -}}
{{- range $text := ternary $value (list $value) $isList -}}
{{- range ternary (splitList "," $text) (list $text) $isList -}}
{{- if include "halfhitch.isUnseen" (ternary (trim .) . $isList) -}}
{{- fail (printf "%s begins or ends with a blank, or has a line break or another character that nobody sees: remove that." $named) -}}
{{- end -}}
{{- if and $isList (not (trim .)) -}}
{{- fail (printf "%s has %q, where nothing stands between two commas: remove that." $named $text) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "halfhitch.checkNumbers" -}}
{{- $sidecar := . -}}
{{- $numbers := dict -}}
{{- range $key, $default := fromYaml (include "halfhitch.defaults" .) -}}
{{- $parts := splitList "." $key -}}
{{- $value := index (index $sidecar.values.settings (first $parts) | default dict) (last $parts) -}}
{{- $_ := set $numbers $key (int64 (ternary $default $value (kindIs "invalid" $value))) -}}
{{- end -}}
{{- range list
  (list "messages.bytes_max" "owner.batch_bytes_max" "a message could be taken that cannot be forwarded")
  (list "messages.bytes_max" "messages.transaction_bytes_max" "a message could be larger than its transaction")
  (list "limits.undecided_group_max" "limits.undecided_max" "one group could use up what all may have")
  (list "owner.batch_bytes_max" "owner.payload_cache_bytes" "every batch would be read back from Kafka") -}}
{{- $less := index $numbers (index . 0) -}}
{{- $more := index $numbers (index . 1) -}}
{{- if gt $less $more -}}
{{- fail (printf "%s (%d) is larger than %s (%d), so that %s: make the first smaller, or the second larger." (include "halfhitch.named" (list $sidecar (index . 0))) $less (include "halfhitch.named" (list $sidecar (index . 1))) $more (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- $limit := index $numbers "owner.transaction_timeout_ms" -}}
{{- $horizon := index $numbers "ledger.horizon_s" -}}
{{- if le (mul $horizon 1000) $limit -}}
{{- fail (printf "%s (%d s) is not longer than settings.owner.transaction_timeout_ms (%d ms): set it to %d or more." (include "halfhitch.named" (list $sidecar "ledger.horizon_s")) $horizon $limit (mul (div $limit 1000) 2)) -}}
{{- end -}}
{{- $hung := index $numbers "owner.hung_call_s" -}}
{{- if and $hung (lt (mul $hung 1000) (add $limit 10000)) -}}
{{- fail (printf "%s (%d s) must be ten seconds longer than settings.owner.transaction_timeout_ms (%d ms): set it to %d or more, or to 0 (never)." (include "halfhitch.named" (list $sidecar "owner.hung_call_s")) $hung $limit (add (div (add $limit 999) 1000) 10)) -}}
{{- end -}}
{{- end }}

{{/* Texts of a form of their own. */}}
{{- define "halfhitch.checkPatterns" -}}
{{- $sidecar := . -}}
{{- $settings := .values.settings -}}
{{- $host := `([[][0-9A-Fa-f:.]+[]]|[A-Za-z0-9._-]+)` -}}
{{- $port := `(:(0*[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?` -}}
{{- range list
  (list "http.hosts" (printf "^%s(:[0-9]{1,5})?$" $host) "no Host header: write a name, or name:port, such as halfhitch.shop.svc:8340")
  (list "topics.allow" `^[A-Za-z0-9._*?\[\]!-]+$` "no pattern of topics: use letters, digits, '.', '_', '-', * and ?, such as shop.*")
  (list "checks.give_up_topics" `^.*[^ =].*= *(park|rollback|commit)$` "no pattern with a policy (park, rollback, commit): write it like orders.*=rollback")
  (list "rocketmq.advertised" (printf "^%s%s$" $host $port) "no host and no host:port: write for example halfhitch.shop.svc:9876") -}}
{{- $parts := splitList "." (index . 0) -}}
{{- $pattern := index . 1 -}}
{{- $says := index . 2 -}}
{{- $value := index (index $settings (first $parts) | default dict) (last $parts) -}}
{{- $texts := list -}}
{{- if and (kindIs "slice" $value) $value -}}{{- $texts = splitList "," (join "," $value) -}}{{- end -}}
{{- if kindIs "string" $value -}}{{- $texts = list $value -}}{{- end -}}
{{- range $texts -}}
{{- if not (regexMatch $pattern (trim .)) -}}
{{- fail (printf "%s has %q, which is %s." (include "halfhitch.named" (list $sidecar (join "." $parts))) (trim .) $says) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and ($settings.limits | default dict).requests_s_identity_max (not .values.secrets.identities.secretName) -}}
{{- $cure := ternary "and injected sidecars have none: set injection.settings.limits.requests_s_identity_max to 0" "and none are: set secrets.identities.secretName, or leave it away" (hasKey . "over") -}}
{{- fail (printf "%s counts for identities, %s." (include "halfhitch.named" (list . "limits.requests_s_identity_max")) $cure) -}}
{{- end -}}
{{- end }}

{{/* The bits of an IPv4 or IPv6 address as a text of 0 and 1; nothing of what is none. Context: a text. */}}
{{- define "halfhitch.bits" -}}
{{- $octet := `(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])` -}}
{{- if regexMatch (printf `^(%s[.]){3}%s$` $octet $octet) . -}}
{{- range splitList "." . -}}{{ printf "%08b" (int .) }}{{- end -}}
{{- else if contains ":" . -}}
{{- $text := . -}}
{{- $last := regexFind `[0-9.]+$` . -}}
{{- if contains "." $last -}}
{{- $bits := include "halfhitch.bits" $last -}}
{{- if $bits -}}
{{- $text = printf "%sb%s:b%s" (trimSuffix $last .) (substr 0 16 $bits) (substr 16 32 $bits) -}}
{{- end -}}
{{- end -}}
{{- $sides := splitList "::" $text -}}
{{- $groups := list -}}
{{- range $at, $side := $sides -}}
{{- $own := ternary list (splitList ":" $side) (empty $side) -}}
{{- if and $at (eq (len $sides) 2) -}}
{{- range until (int (max 0 (sub (sub 8 (len $groups)) (len $own)))) -}}{{- $groups = append $groups "0" -}}{{- end -}}
{{- end -}}
{{- $groups = concat $groups $own -}}
{{- end -}}
{{- $bits := "" -}}
{{- range $groups -}}
{{- if regexMatch "^[0-9A-Fa-f]{1,4}$" . -}}{{- $bits = printf "%s%016b" $bits (int (printf "0x%s" .)) -}}{{- end -}}
{{- if regexMatch "^b[01]{16}$" . -}}{{- $bits = print $bits (trimPrefix "b" .) -}}{{- end -}}
{{- end -}}
{{- if and (eq (len $groups) 8) (eq (len $bits) 128) (le (len $sides) 2) -}}{{ $bits }}{{- end -}}
{{- end -}}
{{- end }}

{{/* Bits of an address, of an IPv4 one that is written as an IPv6 one those of the former. Context: a text. */}}
{{- define "halfhitch.plainBits" -}}
{{- include "halfhitch.bits" . | trimPrefix (printf "%s%s" (repeat 80 "0") (repeat 16 "1")) -}}
{{- end }}

{{/* Whether a host is this machine for sure. Context: a host, without brackets. */}}
{{- define "halfhitch.isLoopback" -}}
{{- $bits := include "halfhitch.plainBits" . -}}
{{- if or (eq (lower .) "localhost") (and (eq (len $bits) 32) (hasPrefix "01111111" $bits)) (eq $bits (printf "%s1" (repeat 127 "0"))) -}}yes{{- end -}}
{{- end }}

{{/* Whether addresses that begin so are link-local or for many. Context: bits. */}}
{{- define "halfhitch.isNeverCalled" -}}
{{- if eq (len .) 32 -}}
{{- if or (hasPrefix "1010100111111110" .) (hasPrefix "1110" .) -}}yes{{- end -}}
{{- else if or (hasPrefix "1111111010" .) (hasPrefix "11111111" .) -}}yes{{- end -}}
{{- end }}

{{/* Its parts, as a mapping of host, port and whether it is fit. Context: a text. */}}
{{- define "halfhitch.url" -}}
{{- $host := `[[][0-9A-Fa-f:.]+[]]|[A-Za-z0-9._-]{1,253}` -}}
{{- $rest := regexReplaceAll `^[A-Za-z]+://` . "" -}}
{{- $place := regexFind `^[^/?#]*` $rest -}}
{{- $port := regexFind `:[0-9]*$` $place | trimPrefix ":" -}}
{{- $name := regexReplaceAll `:[0-9]*$` $place "" -}}
{{- $isPort := or (not $port) (and (le (len $port) 5) (gt (atoi $port) 0) (le (atoi $port) 65535)) -}}
{{- $isHost := regexMatch (printf "^(%s)$" $host) $name -}}
{{- if hasPrefix "[" $name -}}{{- $isHost = not (empty (include "halfhitch.bits" ($name | trimPrefix "[" | trimSuffix "]"))) -}}{{- end -}}
{{- $isFit := and (regexMatch `^[!-~]+$` .) $isHost $isPort (not (contains "#" .)) (contains "://" .) -}}
{{- $scheme := regexFind `^[A-Za-z]+` . | lower -}}
{{- dict "host" ($name | trimPrefix "[" | trimSuffix "]") "scheme" $scheme "isFit" $isFit "hasUser" (contains "@" $place) | toYaml -}}
{{- end }}

{{/* Addresses that are called. One with a password is not shown. */}}
{{- define "halfhitch.checkAddresses" -}}
{{- $sidecar := . -}}
{{- $settings := .values.settings -}}
{{- $options := ($settings.kafka | default dict).options | default dict -}}
{{- $urls := dict
  "checks.url" (list ($settings.checks | default dict).url "write for example https://checks.shop.svc/halfhitch" "put a token into secrets.checksUrlToken")
  "tracing.endpoint" (list ($settings.tracing | default dict).endpoint "write for example http://otel-collector:4318" "name a collector that asks for none, such as one that adds it")
  "kafka.options" (list (index $options "sasl.oauthbearer.token.endpoint.url") "write for example https://login.example.com/token" "put the secret into secrets.kafkaOauthClientSecret") -}}
{{- range $key, $given := $urls -}}
{{- $text := first $given -}}
{{- if not (kindIs "invalid" $text) -}}
{{- $name := print (include "halfhitch.named" (list $sidecar $key)) (ternary " sasl.oauthbearer.token.endpoint.url" "" (eq $key "kafka.options")) -}}
{{- $url := fromYaml (include "halfhitch.url" (toString $text)) -}}
{{- if $url.hasUser -}}
{{- fail (printf "%s has a user or a password in it, which would stand in the pod's environment: leave it out, and %s." $name (index $given 2)) -}}
{{- end -}}
{{- if not (and $url.isFit (has $url.scheme (list "http" "https"))) -}}
{{- fail (printf "%s is no address that begins with http:// or https:// and a host: %s." $name (index $given 1)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $endpoint := ($settings.tracing | default dict).endpoint -}}
{{- if $endpoint -}}
{{- if eq (toString ($settings.audit | default dict).enabled) "false" -}}
{{- fail (printf "%s needs settings.audit.enabled: set that to true, or leave the address away." (include "halfhitch.named" (list . "tracing.endpoint"))) -}}
{{- end -}}
{{- if not (regexMatch `^https?://([[]|([A-Za-z0-9_-]{1,63}[.])*[A-Za-z0-9_-]{1,63}[.]?([:/]|$))[^?]*$` $endpoint) -}}
{{- fail (printf "%s is no address of a collector: write for example http://otel-collector:4318, in small letters and without a query." (include "halfhitch.named" (list . "tracing.endpoint"))) -}}
{{- end -}}
{{- end -}}
{{- include "halfhitch.checkCallback" . -}}
{{- end }}

{{/* Where checks.url may lead to, and what may be sent there. */}}
{{- define "halfhitch.checkCallback" -}}
{{- $checks := .values.settings.checks | default dict -}}
{{- $sidecar := . -}}
{{- $networks := list -}}
{{- range $text := $checks.url_networks -}}
{{- range splitList "," $text -}}
{{- $parts := splitList "/" (trim .) -}}
{{- $bits := include "halfhitch.bits" (first $parts) -}}
{{- $length := ternary (last $parts) (toString (len $bits)) (eq (len $parts) 2) -}}
{{- if or (not $bits) (gt (len $parts) 2) (not (regexMatch "^(0|[1-9][0-9]{0,2})$" $length)) (gt (atoi $length) (len $bits)) (contains "1" (substr (atoi $length) (len $bits) $bits)) -}}
{{- fail (printf "%s has %q, which is no network: write for example 10.0.0.0/8 or 10.1.2.3/32." (include "halfhitch.named" (list $sidecar "checks.url_networks")) (trim .)) -}}
{{- end -}}
{{- $prefix := trunc (atoi $length) $bits -}}
{{- if include "halfhitch.isNeverCalled" (print $prefix (repeat (int (sub (len $bits) (len $prefix))) "0")) -}}
{{- fail (printf "%s has %s, whose addresses are never called: leave it out." (include "halfhitch.named" (list $sidecar "checks.url_networks")) (trim .)) -}}
{{- end -}}
{{- $networks = append $networks (dict "prefix" $prefix "bits" (len $bits)) -}}
{{- end -}}
{{- end -}}
{{- if $checks.url -}}
{{- $name := include "halfhitch.named" (list . "checks.url") -}}
{{- $url := fromYaml (include "halfhitch.url" $checks.url) -}}
{{- $isLoopback := include "halfhitch.isLoopback" $url.host -}}
{{- $bits := include "halfhitch.plainBits" $url.host -}}
{{- if and $bits (not $isLoopback) -}}
{{- $isIn := false -}}
{{- range $networks -}}
{{- if and (eq (int .bits) (len $bits)) (hasPrefix .prefix $bits) -}}{{- $isIn = true -}}{{- end -}}
{{- end -}}
{{- if or (include "halfhitch.isNeverCalled" $bits) (hasPrefix "00000000" $bits) (and (eq (len $bits) 32) (hasPrefix "1111" $bits)) -}}
{{- fail (printf "%s leads to %s, and link-local and reserved addresses are never called: name another." $name $url.host) -}}
{{- end -}}
{{- if not $isIn -}}
{{- fail (printf "%s leads to %s, which is in no network of checks.url_networks: add %s/%d there, if the sidecar is meant to call it." $name $url.host $url.host (len $bits)) -}}
{{- end -}}
{{- end -}}
{{- if and .values.secrets.checksUrlToken.secretName (eq $url.scheme "http") (not $isLoopback) (not $checks.url_encrypted_in_front) -}}
{{- fail (printf "%s begins with http://, and secrets.checksUrlToken could be read on the way: begin it with https://, or, where a mesh encrypts, set settings.checks.url_encrypted_in_front to true." $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Each option of Kafka's client by itself. No value is shown: it may be a secret by mistake. */}}
{{- define "halfhitch.checkOptions" -}}
{{- $place := include "halfhitch.named" (list . "kafka.options") -}}
{{- $elsewhere := fromYaml (include "halfhitch.secretOptions" .) -}}
{{- $known := fromYaml (include "halfhitch.optionValues" .) -}}
{{- range $name, $value := (.values.settings.kafka | default dict).options -}}
{{- if hasKey $elsewhere $name -}}
{{- fail (printf "%s has %s, which is a secret or a file: use %s." $place $name (index $elsewhere $name)) -}}
{{- end -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $text := include "halfhitch.text" $value -}}
{{- $isPem := hasSuffix ".pem" $name -}}
{{- if not (trim $text) -}}
{{- fail (printf "%s has %s with nothing in it: leave it out, or give it a value." $place $name) -}}
{{- end -}}
{{- if and (not $isPem) (include "halfhitch.isUnseen" $text) -}}
{{- fail (printf "%s has %s, whose value begins or ends with a blank, or has a line break or another character that nobody sees: remove that." $place $name) -}}
{{- end -}}
{{- if and $isPem (not (regexMatch `(?s)-----BEGIN CERTIFICATE-----\r?\n.+\n-----END CERTIFICATE-----` $text)) -}}
{{- fail (printf "%s has %s, which is no certificate in PEM: it has lines of its own from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----." $place $name) -}}
{{- end -}}
{{- if and (eq $name "ssl.endpoint.identification.algorithm") (ne (lower $text) "https") -}}
{{- fail (printf "%s must not set %s to %q, for others could pose as Kafka: leave it out; if that is meant, set settings.kafka.verify_host_names to false." $place $name $text) -}}
{{- end -}}
{{- if and (hasPrefix "sasl.mechanism" $name) (eq (upper $text) "GSSAPI") -}}
{{- fail (printf "%s must not set %s to %s, for Kerberos has files that no chart mounts: use SCRAM-SHA-512, PLAIN, OAUTHBEARER or certificates." $place $name $text) -}}
{{- end -}}
{{- with index $known $name -}}
{{- if kindIs "string" (first .) -}}
{{- if not (has (lower $text) (splitList " " (lower (join " " .)))) -}}
{{- fail (printf "%s must not set %s to %q: Kafka's client takes %s or %s." $place $name $text (join ", " (initial .)) (last .)) -}}
{{- end -}}
{{- else if or (not (regexMatch "^[+-]?(0|[1-9][0-9]{0,17})$" $text)) (lt (atoi $text) (int (first .))) (gt (atoi $text) (int (last .))) -}}
{{- fail (printf "%s must not set %s to %q: Kafka's client takes a whole number from %d to %d." $place $name $text (int (first .)) (int (last .))) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $name "sasl.oauthbearer.method") (ne (lower $text) "oidc") -}}
{{- fail (printf "%s must not set %s to %q: only oidc is taken; for MSK with IAM set settings.kafka.msk_iam_region." $place $name $text) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What signs in to Kafka fits together. */}}
{{- define "halfhitch.checkSignIn" -}}
{{- $place := include "halfhitch.named" (list . "kafka.options") -}}
{{- $kafka := .values.settings.kafka | default dict -}}
{{- $protocol := include "halfhitch.protocol" .values -}}
{{- $mechanism := include "halfhitch.mechanism" .values -}}
{{- $options := dict -}}
{{- range $name, $value := $kafka.options -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $options $name $value -}}{{- end -}}
{{- end -}}
{{- range $name, $value := $options -}}
{{- if or (and (hasPrefix "sasl." $name) (not (contains "sasl" $protocol))) (and (hasPrefix "ssl." $name) (not (contains "ssl" $protocol))) -}}
{{- fail (printf "%s has %s, which security.protocol %s ignores: add security.protocol: %s." $place $name (upper $protocol) (ternary "SASL_SSL" "SSL" (hasPrefix "sasl." $name))) -}}
{{- end -}}
{{- end -}}
{{- if and $kafka.msk_iam_region (not (contains "sasl" $protocol)) -}}
{{- fail (printf "%s is set, and signs in by SASL, which %s security.protocol %s leaves out: remove that, or set it to SASL_SSL." (include "halfhitch.named" (list . "kafka.msk_iam_region")) $place (upper $protocol)) -}}
{{- end -}}
{{- if and (hasKey $options "sasl.mechanism") (hasKey $options "sasl.mechanisms") -}}
{{- fail (printf "%s has sasl.mechanism and sasl.mechanisms, two names of one option: keep one." $place) -}}
{{- end -}}
{{- if and (contains "sasl" $protocol) (not $mechanism) -}}
{{- fail (printf "%s sets security.protocol to %s, and no sasl.mechanism: add for example sasl.mechanism: SCRAM-SHA-512." $place (upper $protocol)) -}}
{{- end -}}
{{- if regexMatch "^(PLAIN|SCRAM-.*)$" $mechanism -}}
{{- if not (hasKey $options "sasl.username") -}}
{{- fail (printf "%s sets sasl.mechanism to %s, and no sasl.username: add it." $place $mechanism) -}}
{{- end -}}
{{- if not .values.secrets.kafkaPassword.secretName -}}
{{- fail (printf "%s sets sasl.mechanism to %s, which needs a password: set secrets.kafkaPassword.secretName." $place $mechanism) -}}
{{- end -}}
{{- end -}}
{{- $asked := list -}}
{{- range $name, $value := $options -}}{{- if hasPrefix "sasl.oauthbearer." $name -}}{{- $asked = append $asked $name -}}{{- end -}}{{- end -}}
{{- if ne $mechanism "OAUTHBEARER" -}}
{{- if or $asked $kafka.msk_iam_region -}}
{{- fail (printf "%s is set, but sasl.mechanism is not OAUTHBEARER: set it in %s." (ternary (print $place " " (first $asked)) (include "halfhitch.named" (list . "kafka.msk_iam_region")) (empty $kafka.msk_iam_region)) $place) -}}
{{- end -}}
{{- else -}}
{{- include "halfhitch.checkTokens" (dict "place" $place "options" $options "protocol" $protocol "asked" $asked "values" .values) -}}
{{- end -}}
{{- end }}

{{/* Sign-in by tokens. Context: a mapping, of what the template above has found. */}}
{{- define "halfhitch.checkTokens" -}}
{{- $kafka := .values.settings.kafka -}}
{{- $options := .options -}}
{{- if not (contains "ssl" .protocol) -}}
{{- range splitList "," (toString $kafka.bootstrap) -}}
{{- if not (include "halfhitch.isLoopback" (regexReplaceAll ":[0-9]*$" (trim .) "" | trimPrefix "[" | trimSuffix "]")) -}}
{{- fail (printf "%s sets sasl.mechanism to OAUTHBEARER without TLS, so that whoever listens has the tokens: set security.protocol to SASL_SSL." $.place) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $kafka.msk_iam_region -}}
{{- with .asked -}}
{{- fail (printf "settings.kafka.msk_iam_region and %s %s are both set: keep one of them." $.place (first .)) -}}
{{- end -}}
{{- else -}}
{{- range list "sasl.oauthbearer.method" "sasl.oauthbearer.client.id" "sasl.oauthbearer.token.endpoint.url" -}}
{{- if not (hasKey $options .) -}}
{{- fail (printf "%s sets sasl.mechanism to OAUTHBEARER without %s: give sasl.oauthbearer.method: oidc, sasl.oauthbearer.client.id and sasl.oauthbearer.token.endpoint.url, and the secret by secrets.kafkaOauthClientSecret; for MSK with IAM set settings.kafka.msk_iam_region instead." $.place .) -}}
{{- end -}}
{{- end -}}
{{- if not .values.secrets.kafkaOauthClientSecret.secretName -}}
{{- fail (printf "%s sets sasl.mechanism to OAUTHBEARER, which needs a client secret: set secrets.kafkaOauthClientSecret.secretName." .place) -}}
{{- end -}}
{{- $url := fromYaml (include "halfhitch.url" (index $options "sasl.oauthbearer.token.endpoint.url")) -}}
{{- if and (ne $url.scheme "https") (not (include "halfhitch.isLoopback" $url.host)) -}}
{{- fail (printf "%s has sasl.oauthbearer.token.endpoint.url without https://, and the client's secret would travel in clear: begin it with https://, and give an authority of your own by secrets.kafkaOauthCa." .place) -}}
{{- end -}}
{{- end -}}
{{- end }}

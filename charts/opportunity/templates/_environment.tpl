{{/* The environment of a container: settings from the chart, .Values.env and <service>.env. */}}

{{/* Settings that the chart sets: other values would not match the ports, the Services or the pods' grace period. */}}
{{- define "opportunity.made" -}}
- OPPORTUNITY_LISTEN
- OPPORTUNITY_OPERATIONS_LISTEN
- OPPORTUNITY_ADMIN_LISTEN
- OPPORTUNITY_SHUTDOWN_GRACE
- OPPORTUNITY_SHUTDOWN_DRAIN
- OPPORTUNITY_PUBLIC_URL
- OPPORTUNITY_CATALOG_URL
- OPPORTUNITY_HISTORY_URL
- OPPORTUNITY_AUTHQUOTA_URL
- OPPORTUNITY_BILLING_URL
- OPPORTUNITY_MAIL_FROM
- OPPORTUNITY_TLS_CERT_FILE
- OPPORTUNITY_TLS_KEY_FILE
- OPPORTUNITY_TLS_ACCEPT_PLAINTEXT
- OPPORTUNITY_PEER_CA_FILE
- OPPORTUNITY_TERMS_FILE
- OPPORTUNITY_PRIVACY_FILE
- OTEL_EXPORTER_OTLP_ENDPOINT
- SSL_CERT_DIR
{{- end -}}

{{/* Fails with a message in words, which a pattern in the schema would not have. */}}
{{- define "opportunity.checkAddresses" -}}
{{- if not (regexMatch `^https?://[^\s/?#@]+(/[^\s?#]*[^\s/?#])?$` (.Values.publicURL | default "")) -}}
{{- fail (printf "publicURL must be an http or https URL without a trailing slash, such as https://data.example.com, not %q" (.Values.publicURL | default "")) -}}
{{- end -}}
{{- if not (regexMatch `^([^<>]+<[^<>@\s]+@[^<>@\s]+>|[^<>@\s]+@[^<>@\s]+)$` (.Values.mailFrom | default "")) -}}
{{- fail (printf "mailFrom must be an address, or a name and the address in angle brackets, such as Data <no-reply@example.com>, not %q" (.Values.mailFrom | default "")) -}}
{{- end -}}
{{- end -}}

{{/* GOMEMLIMIT for resources with a memory limit: 90% of it, because the limit counts memory that Go does not manage. */}}
{{- define "opportunity.memoryLimit" -}}
{{- $limit := ((. | default dict).limits | default dict).memory -}}
{{- $limit = kindIs "string" $limit | ternary $limit (toJson $limit) -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $number := regexFind `^[0-9]+(\.[0-9]+)?` $limit -}}
{{- $unit := trimPrefix $number $limit -}}
{{- if and $number (hasKey $units $unit) -}}
{{- mulf 0.9 $number (get $units $unit) | int64 -}}
{{- end -}}
{{- end -}}

{{/* Takes (list $ "service" $set $resources), where $set has the chart's own settings for this container. */}}
{{- define "opportunity.environment" -}}
{{- $root := index . 0 -}}
{{- $service := index . 1 -}}
{{- $settings := $root.Files.Get "settings.yaml" | fromYaml -}}
{{- $made := include "opportunity.made" $root | fromYamlArray -}}
{{- range $where, $given := dict "env" $root.Values.env (printf "%s.env" $service) (index $root.Values $service).env -}}
{{- range $name, $value := $given -}}
{{- $setting := get $settings $name | default dict -}}
{{- if $setting.secret -}}
{{- fail (printf "%s.%s is a secret: put it into the Secret %s, never into the values" $where $name (include "opportunity.secretName" (list $root $service))) -}}
{{- else if has $name $made -}}
{{- fail (printf "%s.%s is set by the chart itself: take it out" $where $name) -}}
{{- else if and (eq $name "OPPORTUNITY_TERMS_VERSION") (ne $where "env") -}}
{{- fail (printf "%s.%s must be env.%[2]s: the gateway shows the version of the terms and authquota records its acceptance" $where $name) -}}
{{- else if and (hasPrefix "OPPORTUNITY_" $name) (not $setting) -}}
{{- fail (printf "%s.%s is not a setting: docs/configuration.md lists them" $where $name) -}}
{{- else if and (hasPrefix "OPPORTUNITY_" $name) (ne $where "env") (not (has $service $setting.services)) -}}
{{- fail (printf "%s.%s has no effect: it is a setting of %s" $where $name (join ", " $setting.services)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "opportunity.checkAddresses" $root -}}
{{- $all := dict "OPPORTUNITY_PUBLIC_URL" $root.Values.publicURL -}}
{{- with $root.Values.telemetry.endpoint -}}{{- $_ := set $all "OTEL_EXPORTER_OTLP_ENDPOINT" . -}}{{- end -}}
{{- if $root.Values.trustedCA.configMapName -}}{{- $_ := set $all "SSL_CERT_DIR" "/etc/opportunity/trusted-ca" -}}{{- end -}}
{{- with include "opportunity.memoryLimit" (index . 3) -}}{{- $_ := set $all "GOMEMLIMIT" . -}}{{- end -}}
{{- $all = mergeOverwrite $all (deepCopy ($root.Values.env | default dict)) (deepCopy ((index $root.Values $service).env | default dict)) (index . 2) -}}
{{- $list := list -}}
{{- range $name := keys $all | sortAlpha -}}
{{- $list = append $list (dict "name" $name "value" (index $all $name)) -}}
{{- end -}}
{{- toYaml $list -}}
{{- end -}}

{{/* Settings of a serving process. The sum of the shutdown times determines terminationGracePeriodSeconds: see shutdown in the values.
     Takes (list $ "service"). */}}
{{- define "opportunity.serving" -}}
{{- $values := (index . 0).Values -}}
OPPORTUNITY_SHUTDOWN_GRACE: {{ $values.shutdown.graceSeconds }}s
OPPORTUNITY_SHUTDOWN_DRAIN: {{ $values.shutdown.drainSeconds }}s
{{- $mode := $values.tls.mode }}
{{- if has $mode (list "preferred" "required") }}
OPPORTUNITY_PEER_CA_FILE: /etc/opportunity/tls/ca.crt
{{- end }}
{{- if and (ne $mode "disabled") (ne (index . 1) "gateway") }}
OPPORTUNITY_TLS_CERT_FILE: /etc/opportunity/tls/tls.crt
OPPORTUNITY_TLS_KEY_FILE: /etc/opportunity/tls/tls.key
{{- if ne $mode "required" }}
OPPORTUNITY_TLS_ACCEPT_PLAINTEXT: "true"
{{- end }}
{{- end }}
{{- end -}}

{{/* The only secret of a job. Takes (list "Secret's name"). */}}
{{- define "opportunity.databaseURL" -}}
- name: OPPORTUNITY_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ index . 0 | quote }}
      key: OPPORTUNITY_DATABASE_URL
{{- end -}}

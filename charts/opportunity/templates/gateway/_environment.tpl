{{- define "opportunity.gateway.environment" -}}
{{- $set := include "opportunity.serving" (list . "gateway") | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_ADMIN_LISTEN" ":8081" -}}
{{- range list "catalog" "history" "authquota" -}}
{{- $_ := set $set (printf "OPPORTUNITY_%s_URL" (upper .)) (include "opportunity.url" (list $ .)) -}}
{{- end -}}
{{- if .Values.billing.enabled -}}
{{- $_ := set $set "OPPORTUNITY_BILLING_URL" (include "opportunity.url" (list . "billing")) -}}
{{- end -}}
{{- range $text, $configMap := include "opportunity.gateway.texts" . | fromYaml -}}
{{- $_ := set $set (printf "OPPORTUNITY_%s_FILE" (upper $text)) (printf "/etc/opportunity/%s/%s.md" $text $text) -}}
{{- end -}}
{{- include "opportunity.environment" (list . "gateway" $set .Values.gateway.resources) -}}
{{- end -}}

{{/* The operator's own texts, each with its ConfigMap. */}}
{{- define "opportunity.gateway.texts" -}}
{{- with .Values.gateway.termsConfigMapName }}
terms: {{ . | quote }}
{{- end }}
{{- with .Values.gateway.privacyConfigMapName }}
privacy: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "opportunity.gateway.volumes" -}}
{{- range $text, $configMap := include "opportunity.gateway.texts" . | fromYaml }}
- name: {{ $text }}
  configMap:
    name: {{ $configMap | quote }}
{{- end }}
{{- end -}}

{{- define "opportunity.gateway.volumeMounts" -}}
{{- range $text, $configMap := include "opportunity.gateway.texts" . | fromYaml }}
- name: {{ $text }}
  mountPath: /etc/opportunity/{{ $text }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "opportunity.gateway.environment" -}}
{{- $set := include "opportunity.shutdown" . | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_ADMIN_LISTEN" ":8081" -}}
{{- range list "catalog" "history" "authquota" -}}
{{- $_ := set $set (printf "OPPORTUNITY_%s_URL" (upper .)) (include "opportunity.url" (list $ .)) -}}
{{- end -}}
{{- if .Values.billing.enabled -}}
{{- $_ := set $set "OPPORTUNITY_BILLING_URL" (include "opportunity.url" (list . "billing")) -}}
{{- end -}}
{{- include "opportunity.environment" (list . "gateway" $set) -}}
{{- end -}}

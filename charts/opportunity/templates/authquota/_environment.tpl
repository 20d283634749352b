{{- define "opportunity.authquota.environment" -}}
{{- $set := include "opportunity.serving" (list . "authquota") | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_MAIL_FROM" .Values.mailFrom -}}
{{- if .Values.billing.enabled -}}
{{- $_ := set $set "OPPORTUNITY_BILLING_URL" (include "opportunity.url" (list . "billing")) -}}
{{- end -}}
{{- include "opportunity.environment" (list . "authquota" $set .Values.authquota.resources) -}}
{{- end -}}

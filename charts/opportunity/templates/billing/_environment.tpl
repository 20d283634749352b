{{- define "opportunity.billing.environment" -}}
{{- $set := include "opportunity.shutdown" . | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_AUTHQUOTA_URL" (include "opportunity.url" (list . "authquota")) -}}
{{- include "opportunity.environment" (list . "billing" $set) -}}
{{- end -}}

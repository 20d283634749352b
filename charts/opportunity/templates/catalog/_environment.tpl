{{- define "opportunity.catalog.environment" -}}
{{- $set := include "opportunity.serving" (list . "catalog") | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_HISTORY_URL" (include "opportunity.url" (list . "history")) -}}
{{- include "opportunity.environment" (list . "catalog" $set .Values.catalog.resources) -}}
{{- end -}}

{{- define "opportunity.history.environment" -}}
{{- $set := include "opportunity.serving" (list . "history") | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_CATALOG_URL" (include "opportunity.url" (list . "catalog")) -}}
{{- include "opportunity.environment" (list . "history" $set .Values.history.resources) -}}
{{- end -}}

{{- define "opportunity.history.environment" -}}
{{- $set := include "opportunity.shutdown" . | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_CATALOG_URL" (include "opportunity.url" (list . "catalog")) -}}
{{- include "opportunity.environment" (list . "history" $set) -}}
{{- end -}}

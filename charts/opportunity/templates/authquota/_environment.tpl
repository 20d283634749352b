{{- define "opportunity.authquota.environment" -}}
{{- $set := include "opportunity.serving" (list . "authquota") | fromYaml -}}
{{- $_ := set $set "OPPORTUNITY_MAIL_FROM" .Values.mailFrom -}}
{{- if .Values.billing.enabled -}}
{{- $_ := set $set "OPPORTUNITY_BILLING_URL" (include "opportunity.url" (list . "billing")) -}}
{{- end -}}
{{- if (.Values.authquota.journal).claimName -}}
{{- $_ := set $set "OPPORTUNITY_JOURNAL_FILE" "/var/lib/opportunity/journal/$(POD_NAME).jsonl" }}
- name: POD_NAME # before its use
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{ end -}}
{{- include "opportunity.environment" (list . "authquota" $set .Values.authquota.resources) -}}
{{- end -}}

{{- define "opportunity.authquota.volumes" -}}
{{- with (.Values.authquota.journal).claimName }}
- name: journal
  persistentVolumeClaim:
    claimName: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "opportunity.authquota.volumeMounts" -}}
{{- if (.Values.authquota.journal).claimName }}
- name: journal
  mountPath: /var/lib/opportunity/journal
{{- end }}
{{- end -}}

{{/* Names and labels. Templates for one service take (list $ "service"). */}}

{{- define "opportunity.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The name of the objects of one service. */}}
{{- define "opportunity.name" -}}
{{- include "opportunity.fullname" (index . 0) }}-{{ index . 1 }}
{{- end -}}

{{/* Selects the pods of one component. It must never change, because a Deployment's selector is immutable. */}}
{{- define "opportunity.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of pods. */}}
{{- define "opportunity.podLabels" -}}
{{ include "opportunity.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/part-of: opportunity
{{- end -}}

{{/* Labels of all other objects. */}}
{{- define "opportunity.labels" -}}
{{ include "opportunity.podLabels" . }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end -}}

{{/* Internal URL of the service port of one service. */}}
{{- define "opportunity.url" -}}
{{ ternary "https" "http" (has (index . 0).Values.tls.mode (list "preferred" "required")) }}://{{ include "opportunity.name" . }}:8080
{{- end -}}

{{/* The existing Secret of one service. */}}
{{- define "opportunity.secretName" -}}
{{- (index (index . 0).Values (index . 1)).secretName | default (include "opportunity.name" .) -}}
{{- end -}}

{{/* The existing Secret with the certificate of one service. */}}
{{- define "opportunity.tlsSecretName" -}}
{{- (index . 0).Values.tls.secretName | default (printf "%s-tls" (include "opportunity.name" .)) -}}
{{- end -}}

{{/* The image of one binary. */}}
{{- define "opportunity.image" -}}
{{- $root := index . 0 -}}
{{- $binary := index . 1 -}}
{{- $own := (index $root.Values (ternary "test" $binary (eq $binary "opportunity"))).image -}}
{{- $registry := ternary (printf "%s/" $root.Values.image.registry) "" (ne $root.Values.image.registry "") -}}
{{- $own | default (printf "%sopportunity/%s:%s" $registry $binary ($root.Values.image.tag | default $root.Chart.AppVersion)) -}}
{{- end -}}

{{/* The host of publicURL. */}}
{{- define "opportunity.host" -}}
{{- (urlParse .Values.publicURL).host | splitList ":" | first -}}
{{- end -}}

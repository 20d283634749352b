{{/* Names and labels. Templates for one service take (list $ "service"). */}}

{{/* A release can have a name that a Service cannot have: with dots, or one that begins with a digit. */}}
{{- define "opportunity.fullname" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if regexMatch "^[0-9]" $name -}}
{{- $name = printf "%s-%s" $chart $name -}}
{{- else if not (contains $chart $name) -}}
{{- $name = printf "%s-%s" $name $chart -}}
{{- end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects of one service. */}}
{{- define "opportunity.name" -}}
{{- include "opportunity.fullname" (index . 0) }}-{{ index . 1 }}
{{- end -}}

{{/* Selects the pods of one component. It must never change, because a Deployment's selector is immutable. */}}
{{- define "opportunity.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of pods. */}}
{{- define "opportunity.podLabels" -}}
{{ include "opportunity.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/part-of: opportunity
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The service account of one service: an existing one, or that of the chart. */}}
{{- define "opportunity.serviceAccountName" -}}
{{- ((get (index . 0).Values (index . 1)).serviceAccount).name | default (include "opportunity.name" .) -}}
{{- end -}}

{{/* Labels of all other objects. */}}
{{- define "opportunity.labels" -}}
{{ include "opportunity.podLabels" . }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end -}}

{{/* The metadata of an object that is not a pod. Takes (list $ "component"), and optionally a dict: name (instead of the component; empty
     for the full name), labels and annotations, in addition to those of all objects. */}}
{{- define "opportunity.metadata" -}}
{{- $more := dict -}}
{{- if gt (len .) 2 -}}{{- $more = index . 2 -}}{{- end -}}
{{- $name := list (index . 0) (dig "name" (index . 1) $more) -}}
name: {{ include "opportunity.name" $name | trimSuffix "-" }}
labels:
  {{- include "opportunity.labels" . | nindent 2 }}
  {{- with $more.labels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with merge (dict) ($more.annotations | default dict) ((index . 0).Values.commonAnnotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
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
{{- with $own -}}
{{- . -}}
{{- else -}}
{{- $image := $root.Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
opportunity/{{ $binary }}:
{{- with $image.tag -}}
{{- . -}}
{{- else -}}
{{- $root.Chart.AppVersion -}}
{{- with get ($image.digests | default dict) $binary }}@{{ . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The host of publicURL, for an Ingress or an HTTPRoute, which need a name. */}}
{{- define "opportunity.host" -}}
{{- $host := (urlParse .Values.publicURL).host | lower | regexFind `^(\[.*\]|[^:]*)` -}}
{{- if regexMatch `^(\[.*\]|[0-9.]+)$` $host -}}
{{- fail (printf "publicURL has the address %s: use a host name, because an Ingress or an HTTPRoute cannot have an address" $host) -}}
{{- end -}}
{{- $host -}}
{{- end -}}
